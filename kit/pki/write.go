package pki

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// write replaces a file at once, so that a reader never sees half of it. A
// file that holds the data already keeps its time; mode and owner are set
// either way.
func (d folder) write(name string, data []byte, mode os.FileMode) error {
	path := filepath.Join(d.path, name)
	if err := d.makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return d.own(path, mode)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Sync()
	}
	if cerr := temporary.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = d.own(temporary.Name(), mode)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (d folder) makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return d.own(path, 0o755)
}

func (d folder) own(path string, mode os.FileMode) error {
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if d.owner == nil {
		return nil
	}
	return os.Chown(path, d.owner.UID, d.owner.GID)
}
