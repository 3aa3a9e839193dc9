package evict

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
)

// Files is what files take up on disk.
type Files struct{ Bytes, Inodes int64 }

// Volumes measures, by name, the emptyDir volumes that a pod has on disk; root is the folder of pods' volumes.
func Volumes(ctx context.Context, root string, p *corev1.Pod) (map[string]Files, error) {
	out := map[string]Files{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumDefault {
			continue
		}
		files, err := size(ctx, filepath.Join(container.PodDir(root, p), "volumes", "kubernetes.io~empty-dir", v.Name))
		if err != nil {
			return out, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		out[v.Name] = files
	}
	return out, nil
}

// size adds up what the files of a folder take up on disk, each once however many names it has. It follows no link out of the folder; a
// folder that is not there takes up nothing.
func size(ctx context.Context, dir string) (Files, error) {
	root, err := os.OpenRoot(dir)
	if os.IsNotExist(err) {
		return Files{}, nil
	}
	if err != nil {
		return Files{}, err
	}
	defer root.Close()
	var sum Files
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
		sum.Bytes += stat.Blocks * 512
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
