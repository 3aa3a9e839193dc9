package volume

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/csi"
)

// wanted is the volume of a claim as a CSI driver is asked for it.
func (m *Manager) wanted(pod *corev1.Pod, v *corev1.Volume, b binding) *csi.Want {
	return &csi.Want{Pod: pod, Name: b.volume.Name, PV: b.volume, Claim: b.claim, ReadOnly: container.ReadOnlyVolume(v), Own: owner(pod)}
}

// inline is a volume that is in the pod's specification alone.
func (m *Manager) inline(pod *corev1.Pod, v *corev1.Volume) *csi.Want {
	return &csi.Want{Pod: pod, Name: v.Name, Inline: v.CSI, ReadOnly: container.ReadOnlyVolume(v), Own: owner(pod)}
}

func owner(pod *corev1.Pod) func(string, int64) error {
	return func(path string, group int64) error {
		return ownAll(path, group, pod.Spec.SecurityContext.FSGroupChangePolicy)
	}
}

// driven has a driver make a volume.
func (m *Manager) driven(ctx context.Context, w *csi.Want) (string, error) {
	path, err := m.cfg.Drivers.Mount(ctx, w)
	return path, drivenError(w, err)
}

// drivenError words what a driver could not do.
func drivenError(w *csi.Want, err error) error {
	if f, ok := errors.AsType[*csi.Failure](err); ok {
		return &failure{f.Step, w.Name, f.Err}
	}
	return err
}

// Refusal says why a pod is not to wait for a volume any longer: the node has as many of a driver as it can have.
func Refusal(err error) (message string, ok bool) {
	if _, ok = errors.AsType[*csi.Exhausted](err); !ok {
		return "", false
	}
	return "Node has reached its volume attachment limit, rejecting pod. " + err.Error(), true
}

// renew has a driver do for a volume what has to be done every now and then. What a claim stands for does not change, but how large it is.
func (m *Manager) renew(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	w := (*csi.Want)(nil)
	if v.CSI != nil {
		w = m.inline(pod, v)
	} else {
		b, err := m.resolve(ctx, pod, v)
		if err != nil || b.volume.Spec.CSI == nil {
			return nil //nolint:nilerr // the containers that run have what they have
		}
		if b, err = m.look(ctx, pod, v); err != nil {
			return nil //nolint:nilerr // a claim may be on its way out while its pod runs
		}
		w = m.wanted(pod, v, b)
	}
	return drivenError(w, m.cfg.Drivers.Renew(ctx, w))
}
