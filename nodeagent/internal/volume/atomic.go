package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// File is one file of a volume that the agent writes.
type File struct {
	Data []byte
	Mode os.FileMode
	// Owner is the user whose it is, nil root.
	Owner *int64
}

// Files are the files of a volume, by their path in it.
type Files map[string]File

// Names in a volume that belong to the agent.
const (
	dataLink    = "..data"
	dataLinkNew = "..data_tmp"
	generation  = "..gen_"
)

// write makes dir hold exactly the files. Readers see either all of the old
// files or all of the new ones: what they open are links through ..data, and
// that one link is replaced. own is applied to each new file and folder.
// It reports whether anything changed.
func write(dir string, files Files, own func(path string) error) (changed bool, err error) {
	for name := range files {
		if err := checkPath(name); err != nil {
			return false, err
		}
	}
	if same(dir, files) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	next, err := os.MkdirTemp(dir, generation)
	if err != nil {
		return false, err
	}
	if err := fill(next, files, own); err != nil {
		return false, errors.Join(err, os.RemoveAll(next))
	}
	temporary := filepath.Join(dir, dataLinkNew)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.Symlink(filepath.Base(next), temporary); err != nil {
		return false, err
	}
	if err := os.Rename(temporary, filepath.Join(dir, dataLink)); err != nil {
		return false, err
	}
	if err := link(dir, files); err != nil {
		return false, err
	}
	if old != "" {
		return true, os.RemoveAll(filepath.Join(dir, filepath.Base(old)))
	}
	return true, nil
}

func checkPath(name string) error {
	if name == "" || filepath.IsAbs(name) || strings.HasPrefix(name, "..") {
		return fmt.Errorf("invalid path %q", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return fmt.Errorf("invalid path %q: must not contain '..'", name)
		}
	}
	return nil
}

// same reports whether dir holds exactly the files already.
func same(dir string, files Files) bool {
	root := filepath.Join(dir, dataLink)
	if _, err := os.Stat(root); err != nil {
		return false
	}
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	count := 0
	err = filepath.WalkDir(resolved, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		count++
		name, _ := filepath.Rel(resolved, path)
		want, ok := files[name]
		if !ok {
			return fs.ErrExist
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, want.Data) {
			return fs.ErrExist
		}
		return nil
	})
	return err == nil && count == len(files)
}

func fill(dir string, files Files, own func(path string) error) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	made := []string{dir}
	for name, file := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.Data, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(path, file.Mode); err != nil { // past the umask
			return err
		}
		if file.Owner != nil {
			if err := os.Lchown(path, int(*file.Owner), -1); err != nil {
				return err
			}
		}
		made = append(made, path)
		for at := filepath.Dir(path); at != dir; at = filepath.Dir(at) {
			made = append(made, at)
		}
	}
	for _, path := range made {
		if err := own(path); err != nil {
			return err
		}
	}
	return nil
}

// link makes one link for each first part of the files' paths, and removes
// those of files that have gone.
func link(dir string, files Files) error {
	want := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		want[first] = true
	}
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := os.Readlink(filepath.Join(dir, name)); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") || want[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
