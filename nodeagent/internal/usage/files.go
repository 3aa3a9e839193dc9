package usage

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Count adds up what the files of a folder take up on disk, each once however many names it has. It follows no link out of the folder; a
// folder that is not there takes up nothing.
func Count(ctx context.Context, dir string, at time.Time) (Files, error) {
	sum := Files{At: at}
	root, err := os.OpenRoot(dir)
	if os.IsNotExist(err) {
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	defer root.Close()
	seen := map[uint64]bool{} // inodes with several names
	err = fs.WalkDir(root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return vanished(err)
		}
		info, err := entry.Info()
		if err != nil {
			return vanished(err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Nlink > 1 && !entry.IsDir() && seen[stat.Ino] {
			return nil
		}
		if stat.Nlink > 1 && !entry.IsDir() {
			seen[stat.Ino] = true
		}
		sum.Bytes += uint64(stat.Blocks) * 512
		sum.Inodes++
		return nil
	})
	return sum, err
}

// vanished forgives what the pod itself has removed meanwhile.
func vanished(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
