package pressure

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/evict"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
)

// candidates measures the pods that may have to end.
func (k *Keeper) candidates(ctx context.Context) []Candidate {
	reading := k.cfg.Usage.Read(ctx)
	if reading.Err != nil {
		slog.WarnContext(ctx, "read what pods use", "err", reading.Err)
	}
	measured := map[types.UID]*usage.Pod{}
	for i := range reading.Pods {
		measured[reading.Pods[i].UID] = &reading.Pods[i]
	}
	var out []Candidate
	for _, p := range k.cfg.Pods() {
		if pod.Finished(p) || Protected(p) {
			continue
		}
		c := candidate(p, measured[p.UID])
		volumes, err := evict.Volumes(ctx, k.cfg.RootDir, p)
		if err != nil {
			slog.WarnContext(ctx, "measure a pod's volumes", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		}
		for _, files := range volumes {
			c.Volumes = c.Volumes.plus(Files(files))
		}
		out = append(out, c)
	}
	return out
}

// candidate adds up what a pod uses; used is nil where it was not measured.
func candidate(p *corev1.Pod, used *usage.Pod) Candidate {
	c := Candidate{Pod: p, Known: used != nil}
	if used == nil {
		return c
	}
	if used.Memory != nil {
		c.Memory = int64(used.Memory.WorkingSet)
	}
	if used.Tasks != nil {
		c.Processes = int64(used.Tasks.Threads) // each has a number of its own, of which there are too few
	}
	for i := range used.Containers {
		one := &used.Containers[i]
		layer, logs := files(one.Rootfs), files(one.Logs)
		c.Layers, c.Logs = c.Layers.plus(layer), c.Logs.plus(logs)
		named := Container{Name: one.Name, Disk: layer.Bytes + logs.Bytes}
		if one.Memory != nil {
			named.Memory = int64(one.Memory.WorkingSet)
		}
		c.Containers = append(c.Containers, named)
	}
	return c
}

func files(f *usage.Files) Files {
	if f == nil {
		return Files{}
	}
	return Files{int64(f.Bytes), int64(f.Inodes)}
}
