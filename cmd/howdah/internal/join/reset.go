package join

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"howdah.dev/kit/nodecert"
)

// Files are what Run has written to a folder and is there; those of howdah pki are not among them.
func Files(dir string) []string {
	names := []string{keyFile, SettingsFile}
	if _, err := os.Lstat(filepath.Join(dir, nodecert.File)); err == nil {
		names = append(names, nodecert.File, "tls.crt", "tls.key", caFile)
	}
	var out []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// Forget takes the files of a joined node out of its folder, and the folder where nothing else is in it.
func Forget(dir string, out io.Writer) error {
	files := Files(dir)
	var problems []error
	for _, path := range files {
		if err := remove(path); err != nil {
			problems = append(problems, err)
			continue
		}
		fmt.Fprintln(out, "removed", path)
	}
	if left, err := os.ReadDir(dir); err == nil && len(left) == 0 && len(files) > 0 {
		_ = os.Remove(dir) // a mount point stays
	}
	return errors.Join(problems...)
}
