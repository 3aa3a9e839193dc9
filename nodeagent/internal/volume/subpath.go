package volume

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
)

// SubPath returns a path on the node that is the file or folder sub below a
// volume, made if it is missing. The result is a mount of exactly what was
// found: a link that a container plants in the volume later cannot lead the
// runtime out of it.
func (m *Manager) SubPath(pod *corev1.Pod, containerName, volumePath, sub string) (string, error) {
	root, err := os.OpenRoot(volumePath)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.Open(sub)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolders(root, sub, fsGroup(pod), volumePath); err != nil {
			return "", err
		}
		file, err = root.Open(sub)
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}

	h := fnv.New64a()
	h.Write([]byte(volumePath + "\x00" + sub))
	target := filepath.Join(container.PodDir(m.cfg.RootDir, pod), "volume-subpaths", containerName, fmt.Sprintf("%x", h.Sum64()))
	points, err := m.cfg.Mounter.Below(target)
	if err != nil {
		return "", err
	}
	for _, point := range points { // of an earlier run; the volume's files may be others now
		if err := m.cfg.Mounter.Unmount(point); err != nil {
			return "", err
		}
	}
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	if err := makePoint(target, info.IsDir()); err != nil {
		return "", err
	}
	return target, m.cfg.Mounter.Bind(file, target)
}

func makeFolders(root *os.Root, sub string, group *int64, volumePath string) error {
	if err := root.MkdirAll(sub, 0o755); err != nil {
		return err
	}
	// Containers write as any user; a new folder is as open as its volume.
	info, err := os.Stat(volumePath)
	if err != nil {
		return err
	}
	if group != nil {
		if err := root.Lchown(sub, -1, int(*group)); err != nil {
			return err
		}
	}
	return root.Chmod(sub, info.Mode()&modeBits)
}

func makePoint(target string, folder bool) error {
	if folder {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	return file.Close()
}
