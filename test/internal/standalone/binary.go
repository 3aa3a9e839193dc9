package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinVariable names a folder with programs that are built already.
const BinVariable = "HOWDAH_TEST_BIN"

// Binary returns the path of the howdah binary: the one that is built already, or else one that it builds into dir from the
// repository at root.
func Binary(root, dir string) (string, error) {
	if folder := os.Getenv(BinVariable); folder != "" {
		path := filepath.Join(folder, "howdah")
		_, err := os.Stat(path)
		return path, err
	}
	path := filepath.Join(dir, "howdah")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir = filepath.Join(root, "cmd", "howdah")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build howdah: %w\n%s", err, out)
	}
	return path, nil
}
