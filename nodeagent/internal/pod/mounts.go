package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RecursiveReadOnly reports whether what is mounted below a volume can only be read, too; supported says whether the runtime can have it so. The
// error is that of a mount that insists.
func RecursiveReadOnly(m *corev1.VolumeMount, supported bool) (bool, error) {
	if m.RecursiveReadOnly == nil || !m.ReadOnly {
		return false, nil
	}
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyIfPossible:
		return supported, nil
	case corev1.RecursiveReadOnlyEnabled:
		if !supported {
			return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
		}
		return true, nil
	}
	return false, nil
}

// mountStatuses describes a container's mounts of volumes.
func mountStatuses(c *corev1.Container, recursive bool) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if all, err := RecursiveReadOnly(m, recursive); err == nil && all {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			s.RecursiveReadOnly = &mode
		}
		out = append(out, s)
	}
	return out
}
