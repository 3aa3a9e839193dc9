// Package pinned keeps eBPF maps and links in a folder on a bpffs, so that an agent's restart interrupts nothing.
package pinned

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Folder makes a folder and makes sure that it is on a bpffs.
func Folder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for pinned maps: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not on a bpf file system: mount one, e.g. `mount -t bpf bpf /sys/fs/bpf`", dir)
	}
	return nil
}

// Load loads a collection over the maps that are pinned in dir, and creates those that are missing. Maps of another shape, which an agent
// of another version left, are unpinned and made anew: its programs keep them alive until they are replaced. Reused says whether
// the maps of an earlier run were found.
func Load(spec *ebpf.CollectionSpec, objects any, dir string) (reused bool, err error) {
	reused = true
	for name, m := range spec.Maps {
		if m.Pinning != ebpf.PinByName {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			reused = false
		}
	}
	options := &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: dir}}
	err = spec.LoadAndAssign(objects, options)
	if !errors.Is(err, ebpf.ErrMapIncompatible) {
		return reused, err
	}
	for name, m := range spec.Maps {
		if m.Pinning != ebpf.PinByName {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("remove outdated map: %w", err)
		}
	}
	return false, spec.LoadAndAssign(objects, options)
}

// Link switches the link that is pinned at path to the program, in one step. If there is none, or it is for something else, or what it was
// attached to is gone, it makes a new one and pins that.
func Link(path string, program *ebpf.Program, fits func(*link.Info) bool, make func() (link.Link, error)) error {
	old, err := link.LoadPinnedLink(path, nil)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("load pinned link: %w", err)
	default:
		defer old.Close()
		info, err := old.Info()
		if err == nil && fits(info) {
			if err = old.Update(program); err == nil {
				return nil
			}
		}
		if err := old.Unpin(); err != nil {
			return fmt.Errorf("remove outdated link: %w", err)
		}
	}
	l, err := make()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Pin(path); err != nil {
		return fmt.Errorf("pin link: %w", err)
	}
	return nil
}

// Remove takes everything out of a folder, and the folder: programs that only its links hold are detached by that.
func Remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
	}
	return errors.Join(append(errs, os.Remove(dir))...)
}
