// Package volume makes what pods mount: empty folders, folders of the node,
// and files that the agent writes and keeps current.
package volume

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/hugepage"
	"howdah.dev/nodeagent/internal/iscsi"
	"howdah.dev/nodeagent/internal/pause"
	"howdah.dev/nodeagent/internal/sweep"
	"howdah.dev/nodeagent/internal/turn"
)

// Objects reads what volumes refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
	// TrustBundle and TrustBundles return certificates of authorities: one set, and those of a signer that a label selector matches.
	TrustBundle(ctx context.Context, name string) (*certificatesv1beta1.ClusterTrustBundle, error)
	TrustBundles(ctx context.Context, signer, selector string) ([]*certificatesv1beta1.ClusterTrustBundle, error)
	// Token returns a service-account token bound to the pod, and its end.
	Token(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (token string, expires time.Time, err error)
}

// Config of a Manager.
type Config struct {
	RootDir string
	Objects Objects
	// Certificates are for pods that have keys of their own.
	Certificates Certificates
	Mounter      Mounter
	Clock        clock.Clock
	Allocatable  func() corev1.ResourceList
	// NodeLabels are the node's own.
	NodeLabels func() map[string]string
	// Drivers make the volumes of CSI drivers.
	Drivers Drivers
	// Device reports whether a path leads to a block device.
	Device func(path string) (bool, error)
	// Command runs what makes and mounts file systems.
	Command Command
	// ISCSI logs in to the targets of iSCSI volumes.
	ISCSI *iscsi.Initiator
	// Attachments tells what is attached to the node; where nil, nobody looks after that.
	Attachments Attachments
	// GitRepos has volumes of the source gitRepo made, with what pods' authors have in their repositories and as root.
	GitRepos bool
	// Pods, which may be nil, are those of the node; their volumes are counted.
	Pods func() []*corev1.Pod
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Attachments are of volumes that the node reaches by itself, and that the controller keeps from other nodes meanwhile.
type Attachments interface {
	// WaitNoted waits until the volume, of a plugin of Kubernetes', is attached to the node. False is that nobody attaches such volumes.
	WaitNoted(ctx context.Context, plugin string, name corev1.UniqueVolumeName) (bool, error)
	// Changed says that InUse has changed.
	Changed()
}

// Drivers make and remove the volumes of CSI drivers.
type Drivers interface {
	// Mount makes a volume for a pod, unless it is there already, and returns where it is.
	Mount(ctx context.Context, w *csi.Want) (string, error)
	// Renew does what has to be done every now and then for a volume that a pod has.
	Renew(ctx context.Context, w *csi.Want) error
	// Unmount takes all of a pod's volumes from it.
	Unmount(ctx context.Context, uid types.UID) error
	// Pods are those that have volumes.
	Pods() []types.UID
	// Usage asks a driver what a volume takes up, nothing where it does not tell.
	Usage(ctx context.Context, w *csi.Want) ([]*csipb.VolumeUsage, error)
}

// Manager makes and removes the volumes of pods.
type Manager struct {
	cfg   Config
	disks keymutex.KeyMutex // held by who looks at what is on a device, or changes it

	targets turn.Turns    // at an iSCSI target, by its name
	records iscsi.Records // of the iSCSI disks that the node has
	pauses  *pause.Pauses // by disk, of what could not be given back
	loop    *sweep.Loop   // over iSCSI disks that no pod has any more

	seed maphash.Seed // of the order of certificates of authorities

	mu     sync.Mutex
	tokens map[tokenKey]token
	bound  map[boundKey]binding // what claims of pods stand for
	// made are the volumes that pods are known to have: what makes each, by its name.
	made map[types.UID]map[string]string

	metrics *metrics
}

// New returns a Manager.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, seed: maphash.MakeSeed(), made: map[types.UID]map[string]string{}, disks: keymutex.NewHashed(16), tokens: map[tokenKey]token{}, bound: map[boundKey]binding{},
		records: iscsi.Records{Dir: filepath.Join(cfg.RootDir, "plugins", "kubernetes.io", "iscsi")}, pauses: pause.New(cfg.Clock), loop: sweep.New(cfg.Clock),
	}
	m.metrics = newMetrics(m, cfg.Registerer)
	return m
}

// Error says which volume could not be made; its text is that of the event.
type Error struct {
	Volume string
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// worded is an error as the event tells it.
func worded(volume string, err error) error {
	if _, ok := errors.AsType[*unresolved](err); ok {
		return err
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	return &Error{volume, err}
}

// Setup makes the volumes that the pod's containers have, or brings them up to date, and returns where
// each is on the node. Those of images are not: the runtime mounts them. It is idempotent.
func (m *Manager) Setup(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) (container.Volumes, error) {
	made := container.Volumes{Mounts: map[string]string{}, Devices: map[string]string{}}
	for _, v := range Used(pod) {
		if v.Image != nil {
			continue
		}
		path, device, err := m.setup(ctx, pod, status, v)
		switch {
		case err != nil:
			return container.Volumes{}, worded(v.Name, err)
		case device:
			made.Devices[v.Name] = path
		default:
			made.Mounts[v.Name] = path
		}
	}
	return made, nil
}

// Refresh brings the files that the agent writes up to date, and has CSI drivers do so.
func (m *Manager) Refresh(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	var problems []error
	for _, v := range Used(pod) {
		if plugin := m.plugin(pod.UID, v); plugin != "" { // the pod runs: it has its volumes, if from another life of the agent
			m.note(pod.UID, v.Name, plugin)
		}
		switch {
		case Written(v):
			if _, _, err := m.setup(ctx, pod, status, v); err != nil {
				problems = append(problems, &Error{v.Name, err})
			}
		case Refreshed(v):
			if err := m.renew(ctx, pod, v); err != nil {
				problems = append(problems, worded(v.Name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// Refreshed reports whether there may be something to do for a volume every now and then.
func Refreshed(v *corev1.Volume) bool {
	return Written(v) || v.CSI != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil
}

// Written reports whether the agent writes the volume's files.
func Written(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// setup makes a volume, and returns where it is and whether it is a block device. Of one that is there nothing is measured, unless its files are written anew.
func (m *Manager) setup(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, v *corev1.Volume) (path string, device bool, _ error) {
	began := m.cfg.Clock.Now()
	path, device, err := m.make(ctx, pod, status, v)
	plugin := m.plugin(pod.UID, v)
	if plugin == "" || ctx.Err() != nil {
		return path, device, err
	}
	there := m.has(pod.UID, v.Name)
	if err == nil {
		m.note(pod.UID, v.Name, plugin)
	}
	if !there || Written(v) {
		operation := "volume_mount"
		if device {
			operation = "map_volume"
		}
		m.metrics.operated(plugin, operation, m.cfg.Clock.Since(began), err)
	}
	return path, device, err
}

func (m *Manager) make(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, v *corev1.Volume) (path string, device bool, _ error) {
	if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
		return m.claimed(ctx, pod, v)
	}
	path, err := m.own(ctx, pod, status, v)
	return path, false, err
}

// own makes a volume for which there is no claim.
func (m *Manager) own(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, v *corev1.Volume) (string, error) {
	switch {
	case v.EmptyDir != nil:
		return m.emptyDir(pod, v.EmptyDir, m.folder(pod, v))
	case v.HostPath != nil:
		return v.HostPath.Path, hostPath(v.HostPath)
	case v.CSI != nil:
		return m.driven(ctx, m.inline(pod, v))
	case v.NFS != nil:
		return m.nfs(ctx, pod, v.Name, v.NFS, v.NFS.ReadOnly, nil)
	case v.ISCSI != nil:
		return m.iscsi(ctx, inlineISCSI(pod, v))
	case v.GitRepo != nil:
		return m.gitRepo(ctx, v.GitRepo, m.folder(pod, v))
	case v.ConfigMap != nil:
		files, err := m.configMap(ctx, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional)
		return m.publish(pod, m.folder(pod, v), files, false, err)
	case v.Secret != nil:
		files, err := m.secret(ctx, pod.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional)
		return m.publish(pod, m.folder(pod, v), files, true, err)
	case v.DownwardAPI != nil:
		files, err := m.downward(pod, status, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
		return m.publish(pod, m.folder(pod, v), files, false, err)
	case v.Projected != nil:
		files, err := m.projected(ctx, pod, status, v.Name, v.Projected)
		return m.publish(pod, m.folder(pod, v), files, true, err)
	}
	return "", fmt.Errorf("volumes of type %s are not supported by this node", kind(v))
}

// folders are those of volumes that the agent makes itself, as Kubernetes calls them.
var folders = []struct {
	kind string
	is   func(v *corev1.Volume) bool
}{
	{"empty-dir", func(v *corev1.Volume) bool { return v.EmptyDir != nil }},
	{"configmap", func(v *corev1.Volume) bool { return v.ConfigMap != nil }},
	{"secret", func(v *corev1.Volume) bool { return v.Secret != nil }},
	{"downward-api", func(v *corev1.Volume) bool { return v.DownwardAPI != nil }},
	{"projected", func(v *corev1.Volume) bool { return v.Projected != nil }},
	{"git-repo", func(v *corev1.Volume) bool { return v.GitRepo != nil }},
}

// folder is where a volume that the agent makes itself lies, "" for others.
func (m *Manager) folder(pod *corev1.Pod, v *corev1.Volume) string {
	for _, f := range folders {
		if f.is(v) {
			return filepath.Join(container.PodDir(m.cfg.RootDir, pod), "volumes", "kubernetes.io~"+f.kind, v.Name)
		}
	}
	return ""
}

// publish writes files into the volume's folder: into memory where they are
// secret, since no secret is to reach a disk.
func (m *Manager) publish(pod *corev1.Pod, dir string, files Files, secret bool, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if secret {
		if err := m.memory(dir, 0); err != nil {
			return "", err
		}
	}
	_, err = write(dir, files, func(path string) error { return own(path, fsGroup(pod), true) })
	return dir, err
}

// memory mounts memory at dir unless it is there already.
func (m *Manager) memory(dir string, size int64) error {
	return m.mounted(dir, func() error { return m.cfg.Mounter.Tmpfs(dir, size) })
}

// mounted mounts something at dir unless something is there already.
func (m *Manager) mounted(dir string, mount func() error) error {
	points, err := m.cfg.Mounter.Below(dir)
	if err != nil || len(points) > 0 {
		return err
	}
	return mount()
}

func (m *Manager) emptyDir(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	mode := os.FileMode(0o777)
	switch source.Medium {
	case corev1.StorageMediumDefault:
	case corev1.StorageMediumMemory:
		mode |= os.ModeSticky // as a file system in memory has it
		var size int64
		if source.SizeLimit != nil {
			size = source.SizeLimit.Value()
		}
		if err := m.memory(dir, size); err != nil {
			return "", err
		}
	default:
		size, err := hugepage.OfMedium(source.Medium, pod)
		if err != nil {
			return "", err
		}
		if err := m.mounted(dir, func() error { return m.cfg.Mounter.HugePages(dir, size) }); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(dir, mode); err != nil {
		return "", err
	}
	return dir, own(dir, fsGroup(pod), false)
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// modeBits are those that say what may be done with a file, and to whom what is made in a folder belongs.
const modeBits = os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky

// own gives path to the pod's group, which may then read it and, unless it is
// read-only, write it; what is made in a folder belongs to the group as well.
func own(path string, group *int64, readOnly bool) error {
	if group == nil {
		return nil
	}
	if err := os.Lchown(path, -1, int(*group)); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mode := info.Mode()&modeBits | 0o660
	if readOnly {
		mode = info.Mode()&modeBits | 0o440
	}
	if info.IsDir() {
		mode |= os.ModeSetgid | 0o110
	}
	return os.Chmod(path, mode)
}

// Release takes from a pod that has ended the volumes that others may wait for: those of CSI drivers, and iSCSI disks.
func (m *Manager) Release(ctx context.Context, uid types.UID) error {
	err := errors.Join(m.cfg.Drivers.Unmount(ctx, uid), m.releaseISCSI(ctx, uid))
	if err == nil {
		m.released(uid)
	}
	return err
}

// Cleanup removes everything of a pod from the node's disk.
func (m *Manager) Cleanup(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	for key := range m.tokens {
		if key.uid == uid {
			delete(m.tokens, key)
		}
	}
	for key := range m.bound {
		if key.uid == uid {
			delete(m.bound, key)
		}
	}
	m.mu.Unlock()
	m.cfg.Certificates.Forget(uid)
	if err := m.Release(ctx, uid); err != nil {
		return err
	}
	dir := filepath.Join(m.cfg.RootDir, "pods", string(uid))
	points, err := m.cfg.Mounter.Below(dir)
	if err != nil {
		return err
	}
	took := map[string]time.Duration{} // by the volume's folder
	for _, point := range points {
		began := m.cfg.Clock.Now()
		err := m.cfg.Mounter.Unmount(point)
		took[point] = m.cfg.Clock.Since(began)
		if plugin := pluginOf(point); err != nil && plugin != "" {
			m.metrics.operated(plugin, "volume_unmount", took[point], err)
		}
		if err != nil {
			return err
		}
	}
	// What is still mounted is not the pod's to delete.
	if points, err = m.cfg.Mounter.Below(dir); err != nil || len(points) > 0 {
		return errors.Join(err, fmt.Errorf("%d mounts remain below %s", len(points), dir))
	}
	if err := m.removeFolders(dir, took); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.made, uid)
	m.mu.Unlock()
	return os.RemoveAll(dir)
}

// removeFolders removes the folders of a pod's volumes one by one, to tell how long each has taken: took is what its mount did.
func (m *Manager) removeFolders(dir string, took map[string]time.Duration) error {
	all, err := filepath.Glob(filepath.Join(dir, "volumes", "kubernetes.io~*", "*"))
	if err != nil {
		return err
	}
	for _, volume := range all {
		began := m.cfg.Clock.Now()
		err := os.RemoveAll(volume)
		m.metrics.operated(pluginOf(volume), "volume_unmount", took[volume]+m.cfg.Clock.Since(began), err)
		if err != nil {
			return err
		}
	}
	return nil
}

// Orphans removes the folders of pods that keep does not know, and reports whether none is left.
func (m *Manager) Orphans(ctx context.Context, keep func(uid types.UID) bool) bool {
	entries, err := os.ReadDir(filepath.Join(m.cfg.RootDir, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("list pod folders", "err", err)
	}
	found := append(m.cfg.Drivers.Pods(), m.usersISCSI()...)
	for _, e := range entries {
		found = append(found, types.UID(e.Name()))
	}
	slices.Sort(found)
	orphans, left := 0, 0
	for _, uid := range slices.Compact(found) {
		if keep(uid) {
			continue
		}
		orphans++
		if err := m.Cleanup(ctx, uid); err != nil {
			slog.Warn("remove the folder of a pod that is gone", "uid", uid, "err", err)
			left++
		}
	}
	m.metrics.orphansCleaned.Set(float64(orphans))
	m.metrics.orphansStuck.Set(float64(left))
	return left == 0
}
