package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"howdah.dev/kit/wholefile"
)

// change runs f on the ledger of a folder, alone: other plugin processes wait (a dead one holds no lock). What f left
// is on disk when change returns nil; if f or the disk fails, nothing has changed.
func change(dir string, f func(*ledger) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("address ledger: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("address ledger: %w", err)
	}
	defer lock.Close()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock address ledger: %w", err)
		}
	}
	file := filepath.Join(dir, "ledger.json")
	l, err := readLedger(file)
	if err != nil {
		return err
	}
	if err := f(l); err != nil {
		return err
	}
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode address ledger: %w", err)
	}
	if err := wholefile.Write(file, data, 0o644); err != nil {
		return fmt.Errorf("write address ledger: %w", err)
	}
	return nil
}

func readLedger(file string) (*ledger, error) {
	l := newLedger()
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read address ledger: %w", err)
	}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("address ledger %s is damaged: %w", file, err)
	}
	return l, nil
}
