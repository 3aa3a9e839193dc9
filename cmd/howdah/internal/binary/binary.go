// Package binary puts this program where a machine's services run it from.
package binary

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"howdah.dev/kit/wholefile"
)

// Previous is where the binary is kept that Install has replaced.
func Previous(path string) string { return path + ".previous" }

// Same says whether two files have the same content. One that is not there is like no other.
func Same(a, b string) (bool, error) {
	if x, err := os.Stat(a); err == nil {
		if y, err := os.Stat(b); err == nil && os.SameFile(x, y) {
			return true, nil
		}
	}
	one, err := sum(a)
	if err != nil {
		return false, err
	}
	other, err := sum(b)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return bytes.Equal(one, other), err
}

// Install copies a program, in one step; what is there is kept as Previous. It says whether something has changed. A process that runs the old one goes on with it.
func Install(from, to string) (bool, error) {
	if same, err := Same(from, to); err != nil || same {
		return false, err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return false, err
	}
	if old, err := os.ReadFile(to); err == nil {
		if err := wholefile.Write(Previous(to), old, 0o755); err != nil {
			return false, fmt.Errorf("keep the binary that was there: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, wholefile.Write(to, data, 0o755)
}

// Restore puts back what Install has replaced.
func Restore(path string) error { return os.Rename(Previous(path), path) }

func sum(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
