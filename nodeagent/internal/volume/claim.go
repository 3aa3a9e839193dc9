package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storage "k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/container"
)

// localKind is the folder of a pod's local volumes, as the kubelet calls it.
const localKind = "kubernetes.io~local-volume"

// unresolved says that it is not known yet what a claim stands for; its text is that of the event.
type unresolved struct {
	volume string
	err    error
}

func (e *unresolved) Error() string {
	return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%s]: %v", e.volume, e.volume, e.err)
}

func (e *unresolved) Unwrap() error { return e.err }

// failure is a step with a volume that went wrong; its text is that of the event.
type failure struct {
	step, volume string
	err          error
}

func (e *failure) Error() string {
	return fmt.Sprintf("%s for volume %q : %v", e.step, e.volume, e.err)
}

func (e *failure) Unwrap() error { return e.err }

// Reason is that of the event that tells of what went wrong with a pod's volumes.
func Reason(err error) string {
	if f, ok := errors.AsType[*failure](err); ok && strings.HasPrefix(f.step, "MapVolume.") {
		return "FailedMapVolume"
	}
	return "FailedMount"
}

// boundKey is a volume of a pod.
type boundKey struct {
	uid    types.UID
	volume string
}

// claimed makes what a claim of the pod stands for, and returns where it is and whether it is a block device.
func (m *Manager) claimed(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (path string, device bool, _ error) {
	b, err := m.resolve(ctx, pod, v)
	if err != nil {
		return "", false, &unresolved{v.Name, err}
	}
	pv := b.volume
	device = block(pv)
	if err := storage.CheckNodeAffinity(pv, m.cfg.NodeLabels()); err != nil {
		step := "MountVolume.NodeAffinity check failed"
		if device {
			step = "MapVolume.NodeAffinity check failed"
		}
		return "", device, &failure{step, pv.Name, err}
	}
	if device {
		path, err = m.mapped(ctx, pod, v, b)
	} else {
		path, err = m.filesystem(ctx, pod, v, b)
	}
	return path, device, err
}

// filesystem makes a volume that is a file system.
func (m *Manager) filesystem(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, b binding) (string, error) {
	pv := b.volume
	switch s := pv.Spec.PersistentVolumeSource; {
	case s.Local != nil:
		return m.local(ctx, pod, v, pv)
	case s.HostPath != nil:
		if err := hostPath(s.HostPath); err != nil {
			return "", &failure{"MountVolume.SetUp failed", pv.Name, err}
		}
		return s.HostPath.Path, nil
	case s.CSI != nil:
		return m.driven(ctx, m.wanted(pod, v, b))
	case s.NFS != nil:
		path, err := m.nfs(ctx, pod, pv.Name, s.NFS, s.NFS.ReadOnly || container.ReadOnlyVolume(v), pv.Spec.MountOptions)
		if err != nil {
			err = &failure{"MountVolume.SetUp failed", pv.Name, err}
		}
		return path, err
	case s.ISCSI != nil:
		return m.iscsi(ctx, boundISCSI(pod, v, pv))
	}
	return "", &failure{"MountVolume.SetUp failed", pv.Name, fmt.Errorf("persistent volumes of type %s are not supported by this node", source(pv.Spec.PersistentVolumeSource))}
}

// resolve returns the volume that is bound to the claim. A binding lasts as long as the pod, so it is asked for once: containers start again while
// the API is away.
func (m *Manager) resolve(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (binding, error) {
	key := boundKey{pod.UID, v.Name}
	m.mu.Lock()
	known := m.bound[key]
	m.mu.Unlock()
	if known.volume != nil {
		return known, nil
	}
	b, err := m.look(ctx, pod, v)
	if err != nil {
		return binding{}, err
	}
	m.mu.Lock()
	m.bound[key] = b
	m.mu.Unlock()
	return b, nil
}

// binding is a claim with its volume.
type binding struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// look asks what a claim stands for as of now.
func (m *Manager) look(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (binding, error) {
	name := ephemeral.VolumeClaimName(pod, v)
	if v.PersistentVolumeClaim != nil {
		name = v.PersistentVolumeClaim.ClaimName
	}
	claim, pv, err := m.binding(ctx, pod.Namespace, name)
	if err != nil {
		return binding{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return binding{}, err
		}
	}
	if err := fits(pod, v, pv); err != nil {
		return binding{}, err
	}
	return binding{claim, pv}, nil
}

// binding returns a claim that can be used and its volume.
func (m *Manager) binding(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := m.cfg.Objects.Claim(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil:
		return nil, nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := m.cfg.Objects.Volume(ctx, claim.Spec.VolumeName)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case pv.Spec.ClaimRef == nil:
		return nil, nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case pv.Spec.ClaimRef.UID != claim.UID:
		return nil, nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, pv.Spec.ClaimRef.UID, claim.UID)
	}
	return claim, pv, nil
}

// fits says why the containers cannot have the volume as they want it.
func fits(pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) error {
	use := uses(pod)[v.Name]
	switch {
	case use.mounted && block(pv):
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", v.Name)
	case use.device && !block(pv):
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", v.Name)
	}
	return nil
}

// localDir is where a pod has a local volume.
func (m *Manager) localDir(pod *corev1.Pod, pv *corev1.PersistentVolume) string {
	return filepath.Join(container.PodDir(m.cfg.RootDir, pod), "volumes", localKind, pv.Name)
}

// local binds a folder of the node into the pod's own, or mounts a device there, so that it is seen there that the volume is in use.
func (m *Manager) local(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume) (string, error) {
	dir := m.localDir(pod, pv)
	points, err := m.cfg.Mounter.Below(dir)
	if err != nil || len(points) > 0 {
		return dir, err
	}
	failed := func(err error) (string, error) { return "", &failure{"MountVolume.SetUp failed", pv.Name, err} }
	path := pv.Spec.Local.Path
	if pv.Annotations[storage.AnnDynamicallyProvisioned] == object.LocalPathProvisioner {
		if err := makeFolder(path); err != nil {
			return failed(err)
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &failure{"MountVolume.NewMounter initialization failed", pv.Name, fmt.Errorf("path %q does not exist", path)}
	case err != nil:
		return failed(err)
	}
	if err := m.alone(pod, pv); err != nil {
		return failed(err)
	}
	if !info.IsDir() {
		is, err := m.cfg.Device(path)
		if err == nil && !is {
			err = fmt.Errorf("%s is neither a directory nor a block device", path)
		}
		if err == nil {
			err = m.localDisk(ctx, pod, v, pv, dir)
		}
		if err != nil {
			return "", &failure{"MountVolume.MountDevice failed", pv.Name, err}
		}
		return dir, nil
	}
	if group := fsGroup(pod); group != nil && !container.ReadOnlyVolume(v) {
		if err := ownAll(path, *group, pod.Spec.SecurityContext.FSGroupChangePolicy); err != nil {
			return failed(fmt.Errorf("applyFSGroup failed for vol %s: %w", pv.Name, err))
		}
	}
	folder, err := os.Open(path)
	if err != nil {
		return failed(err)
	}
	defer folder.Close()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return failed(err)
	}
	if err := m.cfg.Mounter.Bind(folder, dir); err != nil {
		return failed(err)
	}
	return dir, nil
}

// makeFolder makes the folder of a new volume, which containers of any user may write to.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(path, 0o777) // past the umask
}

// ownAll gives a folder and all in it to the group. No link is followed out of it.
func ownAll(path string, group int64, policy *corev1.PodFSGroupChangePolicy) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	if policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch {
		info, err := root.Stat(".")
		if err != nil {
			return err
		}
		const wanted = os.ModeSetgid | 0o770
		if int64(groupOf(info)) == group && info.Mode()&wanted == wanted {
			return nil
		}
	}
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := root.Lchown(name, -1, int(group)); err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			return nil
		}
		mode := info.Mode()&(os.ModePerm|os.ModeSetuid|os.ModeSetgid|os.ModeSticky) | 0o660
		if info.IsDir() {
			mode |= os.ModeSetgid | 0o110
		}
		return root.Chmod(name, mode)
	})
}

// Users returns the pods of this node that have a local volume, whether the API knows them still or not.
func (m *Manager) Users(pv string) []types.UID {
	var uids []types.UID
	for _, kind := range []string{"volumes", devicesName} {
		found, _ := filepath.Glob(filepath.Join(m.cfg.RootDir, "pods", "*", kind, localKind, pv)) // the pattern is well formed
		for _, dir := range found {
			uids = append(uids, types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir))))))
		}
	}
	return uids
}

// shared reports whether other pods of this node have a local volume.
func (m *Manager) shared(pod *corev1.Pod, pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(m.Users(pv.Name), func(uid types.UID) bool { return uid != pod.UID })
}

// alone says why the pod cannot have a local volume that is one pod's alone.
func (m *Manager) alone(pod *corev1.Pod, pv *corev1.PersistentVolume) error {
	if slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteOncePod) && m.shared(pod, pv) {
		return errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	return nil
}

func groupOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Gid
	}
	return 0
}
