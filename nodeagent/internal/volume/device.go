package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
)

// devicesName is the folder of a pod's volumes that are block devices, as the kubelet calls it.
const devicesName = "volumeDevices"

// block reports whether a volume is a block device, and no file system.
func block(pv *corev1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// mapped makes a volume that is a block device, and returns where it is.
func (m *Manager) mapped(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, b binding) (string, error) {
	pv := b.volume
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.Local != nil:
		return m.localDevice(pod, pv)
	case s.CSI != nil:
		return m.driven(ctx, m.wanted(pod, v, b))
	case s.ISCSI != nil:
		return m.iscsi(ctx, boundISCSI(pod, v, pv))
	}
	return "", &failure{"MapVolume.SetUpDevice failed", pv.Name, fmt.Errorf("persistent volumes of type %s are no block devices on this node", source(pv.Spec.PersistentVolumeSource))}
}

// localLink is where a pod has a local volume that is a block device.
func (m *Manager) localLink(pod *corev1.Pod, pv *corev1.PersistentVolume) string {
	return filepath.Join(container.PodDir(m.cfg.RootDir, pod), devicesName, localKind, pv.Name)
}

// localDevice links a block device of the node into the pod's folder, so that it is seen there that the volume is in use.
func (m *Manager) localDevice(pod *corev1.Pod, pv *corev1.PersistentVolume) (string, error) {
	failed := func(step string, err error) (string, error) { return "", &failure{step, pv.Name, err} }
	if err := m.alone(pod, pv); err != nil {
		return failed("MapVolume.SetUpDevice failed", err)
	}
	path, err := filepath.EvalSymlinks(pv.Spec.Local.Path)
	if err != nil {
		return failed("MapVolume.EvalHostSymlinks failed", err)
	}
	is, err := m.cfg.Device(path)
	if err == nil && !is {
		err = fmt.Errorf("%s is not a block device", path)
	}
	if err != nil {
		return failed("MapVolume.MapBlockVolume failed", err)
	}
	link := m.localLink(pod, pv)
	if err := lead(link, path); err != nil {
		return failed("MapVolume.MapBlockVolume failed", err)
	}
	return link, nil
}

// lead makes a link to a device, unless it is there.
func lead(link, device string) error {
	if to, err := os.Readlink(link); err == nil && to == device {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(device, link)
}
