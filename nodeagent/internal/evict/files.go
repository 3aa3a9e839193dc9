package evict

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/usage"
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
		files, err := usage.Count(ctx, filepath.Join(container.PodDir(root, p), "volumes", "kubernetes.io~empty-dir", v.Name), time.Time{})
		if err != nil {
			return out, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		out[v.Name] = Files{int64(files.Bytes), int64(files.Inodes)}
	}
	return out, nil
}
