package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/iscsi"
)

// iscsiKind is the folder of a pod's iSCSI volumes, as the kubelet calls it.
const iscsiKind = "kubernetes.io~iscsi"

// iscsiWant is a disk of a target, as a pod wants it.
type iscsiWant struct {
	pod    *corev1.Pod
	name   string // of the volume, or of the persistent volume
	source *corev1.ISCSIVolumeSource
	// namespace is that of the secret.
	namespace       string
	options         []string
	readOnly, block bool
	alone           bool // no other pod may have it
}

// inlineISCSI is a volume that is in the pod's specification alone.
func inlineISCSI(pod *corev1.Pod, v *corev1.Volume) *iscsiWant {
	return &iscsiWant{pod: pod, name: v.Name, source: v.ISCSI, namespace: pod.Namespace, readOnly: v.ISCSI.ReadOnly}
}

// boundISCSI is the volume of a claim.
func boundISCSI(pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) *iscsiWant {
	s := pv.Spec.ISCSI
	w := &iscsiWant{
		pod: pod, name: pv.Name, namespace: pod.Namespace, options: pv.Spec.MountOptions, block: block(pv),
		readOnly: s.ReadOnly || container.ReadOnlyVolume(v), alone: slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteOncePod),
		source: &corev1.ISCSIVolumeSource{
			TargetPortal: s.TargetPortal, Portals: s.Portals, IQN: s.IQN, Lun: s.Lun, ISCSIInterface: s.ISCSIInterface, InitiatorName: s.InitiatorName,
			FSType: s.FSType, DiscoveryCHAPAuth: s.DiscoveryCHAPAuth, SessionCHAPAuth: s.SessionCHAPAuth,
		},
	}
	if s.SecretRef != nil {
		w.source.SecretRef = &corev1.LocalObjectReference{Name: s.SecretRef.Name}
		if s.SecretRef.Namespace != "" {
			w.namespace = s.SecretRef.Namespace
		}
	}
	return w
}

// iscsiDir and iscsiLink are where a pod has a volume that is a file system, and one that is a block device.
func iscsiDir(root string, pod types.UID, name string) string {
	return filepath.Join(root, "pods", string(pod), "volumes", iscsiKind, name)
}

func iscsiLink(root string, pod types.UID, name string) string {
	return filepath.Join(root, "pods", string(pod), devicesName, iscsiKind, name)
}

// failed names the step in which a volume could not be made: of its way to the node, or of its way to the pod.
func (w *iscsiWant) failed(step string, err error) (string, error) {
	kind := "MountVolume."
	if w.block {
		kind = "MapVolume."
	}
	return "", &failure{kind + step + " failed", w.name, err}
}

// Steps of an iSCSI volume's way to a pod, as events name them.
const (
	stepAttach = "WaitForAttach"
	stepDevice = "MountDevice"
	stepSetUp  = "SetUp"
	stepMap    = "MapBlockVolume"
)

// iscsi makes a volume for a pod, and returns where its folder or the link to its device is. The node logs in once for all pods, and has one mount of
// the disk, which is bound into each pod's folder. What is there already is left as it is, without a question to anybody.
func (m *Manager) iscsi(ctx context.Context, w *iscsiWant) (string, error) {
	d, err := iscsi.Of(w.name, w.source)
	if err != nil {
		return w.failed(stepAttach, err)
	}
	if m.waitsFor(w.pod) {
		if path, err := m.attachISCSI(ctx, w, &d); err != nil || path != "" {
			return path, err
		}
	}
	end, err := m.targets.Take(ctx, d.IQN)
	if err != nil {
		return w.failed(stepAttach, fmt.Errorf("another operation with %s is under way: %w", d.IQN, err))
	}
	defer end()
	if path, err := m.hasISCSI(w, &d); err != nil || path != "" {
		return path, err
	}
	r, err := m.useISCSI(w, &d)
	if err != nil {
		return w.failed(stepAttach, err)
	}
	if w.block {
		return m.linkISCSI(ctx, w, &r)
	}
	return m.bindISCSI(ctx, w, &r)
}

// attachISCSI waits until the controller keeps the disk from other nodes, which have to hear first that it is in use here. Nobody else waits for the
// target meanwhile. It returns where the pod has the volume, if it does already.
func (m *Manager) attachISCSI(ctx context.Context, w *iscsiWant, d *iscsi.Disk) (string, error) {
	end, err := m.targets.Take(ctx, d.IQN)
	if err != nil {
		return w.failed(stepAttach, fmt.Errorf("another operation with %s is under way: %w", d.IQN, err))
	}
	path, err := m.hasISCSI(w, d)
	if err == nil && path == "" {
		if _, err = m.useISCSI(w, d); err != nil {
			_, err = w.failed(stepAttach, err)
		}
	}
	end()
	if err != nil || path != "" {
		return path, err
	}
	if err := m.attached(ctx, object.ISCSIPlugin, w.unique()); err != nil {
		return w.failed(stepAttach, err)
	}
	return "", nil
}

// unique is what the status of the Node calls the disk.
func (w *iscsiWant) unique() corev1.UniqueVolumeName {
	return object.ISCSIName(w.source.TargetPortal, w.source.IQN, w.source.Lun)
}

// hasISCSI returns where a pod has the volume, "" where it has not got it.
func (m *Manager) hasISCSI(w *iscsiWant, d *iscsi.Disk) (string, error) {
	if !w.block {
		dir := iscsiDir(m.cfg.RootDir, w.pod.UID, w.name)
		points, err := m.cfg.Mounter.Below(dir)
		if err != nil || len(points) == 0 {
			return "", err
		}
		return dir, nil
	}
	link := iscsiLink(m.cfg.RootDir, w.pod.UID, w.name)
	device, err := os.Readlink(link)
	if err != nil {
		return "", nil //nolint:nilerr // it is made
	}
	// Since the machine has started anew, the name may be another disk's.
	if is, err := m.cfg.ISCSI.Is(d, device); err != nil || !is {
		return "", err
	}
	r, err := m.records.Read(d)
	if err != nil || !r.Of(w.pod.UID) {
		return "", err
	}
	return link, nil
}

// useISCSI notes that the pod uses the disk, before anything is done for it.
func (m *Manager) useISCSI(w *iscsiWant, d *iscsi.Disk) (iscsi.Record, error) {
	others, err := m.records.All()
	if err != nil {
		return iscsi.Record{}, err
	}
	r, err := m.records.Read(d)
	if err != nil {
		return iscsi.Record{}, err
	}
	asked := iscsi.Record{Disk: *d}
	if err := asked.Clash(others, w.readOnly); err != nil {
		return iscsi.Record{}, err
	}
	if w.alone && slices.ContainsFunc(r.Users, func(u iscsi.User) bool { return u.Name == w.name && u.Pod != w.pod.UID }) {
		return iscsi.Record{}, errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	if !slices.ContainsFunc(r.Users, func(u iscsi.User) bool { return u.Pod != w.pod.UID }) {
		r.Disk = *d // it may be reached in another way now
	}
	r.Call(w.unique())
	r.Use(iscsi.User{Pod: w.pod.UID, Name: w.name, ReadOnly: w.readOnly})
	r.Inherit(others...)
	return r, m.records.Write(&r)
}

// connectISCSI logs in and returns the disk's device.
func (m *Manager) connectISCSI(ctx context.Context, w *iscsiWant, r *iscsi.Record) (string, error) {
	return m.cfg.ISCSI.Connect(ctx, &r.Disk, iscsi.Login{
		Secrets: func(ctx context.Context) (map[string]string, error) { return m.secretISCSI(ctx, w) },
		Begin: func(portal string) error {
			r.Begin(portal)
			return m.records.Write(r)
		},
	})
}

// secretISCSI are the names and passwords of CHAP.
func (m *Manager) secretISCSI(ctx context.Context, w *iscsiWant) (map[string]string, error) {
	if w.source.SecretRef == nil {
		return nil, errors.New("CHAP is asked for, and no secret is named")
	}
	secret, err := m.cfg.Objects.Secret(ctx, w.namespace, w.source.SecretRef.Name)
	if err != nil {
		return nil, fmt.Errorf("get secret %s/%s: %w", w.namespace, w.source.SecretRef.Name, err)
	}
	out := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out, nil
}

// linkISCSI links the disk's device into the pod's folder.
func (m *Manager) linkISCSI(ctx context.Context, w *iscsiWant, r *iscsi.Record) (string, error) {
	device, err := m.connectISCSI(ctx, w, r)
	if err != nil {
		return w.failed(stepAttach, err)
	}
	is, err := m.cfg.Device(device)
	if err == nil && !is {
		err = fmt.Errorf("%s is not a block device", device)
	}
	link := iscsiLink(m.cfg.RootDir, w.pod.UID, w.name)
	if err == nil {
		err = lead(link, device)
	}
	if err != nil {
		return w.failed(stepMap, err)
	}
	return link, nil
}

// bindISCSI binds what the node has mounted of the disk into the pod's folder.
func (m *Manager) bindISCSI(ctx context.Context, w *iscsiWant, r *iscsi.Record) (string, error) {
	if err := m.mountISCSI(ctx, w, r); err != nil {
		return "", err
	}
	global := m.records.Mount(&r.Disk)
	if group := fsGroup(w.pod); group != nil && !w.readOnly {
		if err := ownAll(global, *group, w.pod.Spec.SecurityContext.FSGroupChangePolicy); err != nil {
			return w.failed(stepSetUp, fmt.Errorf("applyFSGroup failed for vol %s: %w", w.name, err))
		}
	}
	folder, err := os.Open(global)
	if err != nil {
		return w.failed(stepSetUp, err)
	}
	defer folder.Close()
	dir := iscsiDir(m.cfg.RootDir, w.pod.UID, w.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return w.failed(stepSetUp, err)
	}
	if err := m.cfg.Mounter.Bind(folder, dir); err != nil {
		return w.failed(stepSetUp, err)
	}
	return dir, nil
}

// mountISCSI mounts the disk for the node. One that is mounted to be read, and that a pod now writes to, is made writable.
func (m *Manager) mountISCSI(ctx context.Context, w *iscsiWant, r *iscsi.Record) error {
	named := func(step string, err error) error { _, err = w.failed(step, err); return err }
	global := m.records.Mount(&r.Disk)
	points, err := m.cfg.Mounter.Below(global)
	switch {
	case err != nil:
		return named(stepDevice, err)
	case len(points) > 0 && (w.readOnly || !r.ReadOnly):
		return nil
	case len(points) > 0:
		if err := m.must(ctx, "mount", "-o", "remount,rw", global); err != nil {
			return named(stepDevice, err)
		}
		return m.noteReadOnly(r, false, named)
	}
	device, err := m.connectISCSI(ctx, w, r)
	if err != nil {
		return named(stepAttach, err)
	}
	if err := m.noteReadOnly(r, w.readOnly, named); err != nil {
		return err
	}
	options := w.options
	if w.readOnly {
		options = append([]string{"ro"}, options...)
	}
	err = m.mountDisk(ctx, disk{
		device: device, dir: global, kind: w.source.FSType, options: options, readOnly: w.readOnly, used: func() bool { return false },
	})
	if err != nil {
		return named(stepDevice, err)
	}
	return nil
}

func (m *Manager) noteReadOnly(r *iscsi.Record, is bool, named func(string, error) error) error {
	r.ReadOnly = is
	if err := m.records.Write(r); err != nil {
		return named(stepDevice, err)
	}
	return nil
}
