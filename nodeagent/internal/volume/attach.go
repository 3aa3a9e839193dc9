package volume

import (
	"context"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"

	podof "howdah.dev/nodeagent/internal/pod"
)

// InUse are the volumes that the controller has to keep from other nodes, beside those of CSI drivers: which the node has, or is about to have.
func (m *Manager) InUse() []corev1.UniqueVolumeName {
	all, _ := m.records.All() // who cannot be read is told of by the sweep
	var names []corev1.UniqueVolumeName
	for i := range all {
		names = append(names, all[i].Called()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// waitsFor reports whether volumes of a pod wait until they are attached. Those of the node's own pods do not: such a pod may be what makes the API.
func (m *Manager) waitsFor(pod *corev1.Pod) bool {
	return m.cfg.Attachments != nil && !podof.Static(pod)
}

// attached waits until the controller calls a volume attached that it has to do nothing else for.
func (m *Manager) attached(ctx context.Context, plugin string, name corev1.UniqueVolumeName) error {
	attached, err := m.cfg.Attachments.WaitNoted(ctx, plugin, name)
	if err == nil && !attached {
		slog.Warn("no controller keeps the volume from other nodes", "volume", name)
	}
	return err
}
