package csi

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/attach"
	"howdah.dev/nodeagent/internal/pause"
	"howdah.dev/nodeagent/internal/sweep"
	"howdah.dev/nodeagent/internal/turn"
)

// Objects reads what volumes need of the API.
type Objects interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// CSIDriver returns what is said of a driver, nil where nothing is.
	CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	// ChangeClaim changes the status of a claim, as it is now, and returns what it has become.
	ChangeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaim, error)
}

// Config of Volumes.
type Config struct {
	// Dir is the kubelet's folder, below which all is.
	Dir      string
	NodeName string
	Drivers  *Drivers
	Objects  Objects
	// Token returns a token of the pod's service account, and its end.
	Token func(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (string, time.Time, error)
	// Mounts returns the mount points at or below a path.
	Mounts func(path string) ([]string, error)
	// Device reports whether a path leads to a block device.
	Device func(path string) (bool, error)
	// Waiter waits for what is attached to the node.
	Waiter *attach.Waiter
	// Exhausted hears that the node has as many volumes of a driver as it can have.
	Exhausted func(driver string)
	// Event tells of a pod.
	Event func(pod *corev1.Pod, kind, reason, message string)
	// ClaimGrown tells at a claim that its volume is larger.
	ClaimGrown func(claim *corev1.PersistentVolumeClaim, message string)
	// Operated, which may be nil, hears of what was taken from a pod or the node, by Kubernetes' name for it.
	Operated func(driver, operation string, took time.Duration, err error)
	Clock    clock.Clock
}

// Volumes makes and removes the volumes of the node's drivers.
type Volumes struct {
	cfg   Config
	paths paths
	loop  *sweep.Loop // over volumes that no pod has any more
	turns turn.Turns  // at calling a driver for a volume
	// pauses are, by folder, those of what could not be undone.
	pauses *pause.Pauses

	mu     sync.Mutex
	staged map[corev1.UniqueVolumeName]bool // in this life of the agent
	// inUse are the sizes to which a driver does not bring volumes while pods have them.
	inUse map[corev1.UniqueVolumeName]resource.Quantity
}

// New returns Volumes; it starts nothing.
func New(cfg Config) *Volumes {
	cfg.Dir = filepath.Clean(cfg.Dir)
	return &Volumes{
		cfg: cfg, paths: paths{cfg.Dir}, loop: sweep.New(cfg.Clock), pauses: pause.New(cfg.Clock), staged: map[corev1.UniqueVolumeName]bool{},
		inUse: map[corev1.UniqueVolumeName]resource.Quantity{},
	}
}

// InUse are the attachable volumes that the node has, or is about to have. Nothing is detached that is among them.
func (v *Volumes) InUse() []corev1.UniqueVolumeName { return v.paths.inUse() }

// Pods are those that have folders of volumes.
func (v *Volumes) Pods() []types.UID {
	var uids []types.UID
	for _, kind := range []string{"volumes", devicesName} {
		for _, dir := range v.paths.glob("pods", "*", kind) {
			uids = append(uids, types.UID(filepath.Base(dir)))
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// hold waits until nobody else calls a driver for a volume.
func (v *Volumes) hold(ctx context.Context, name string) (release func(), err error) {
	if release, err = v.turns.Take(ctx, name); err != nil {
		err = fmt.Errorf("another operation with volume %s is under way: %w", name, err)
	}
	return release, err
}

func (v *Volumes) markStaged(name corev1.UniqueVolumeName, is bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if is {
		v.staged[name] = true
	} else {
		delete(v.staged, name)
		delete(v.inUse, name)
	}
}

func (v *Volumes) isStaged(name corev1.UniqueVolumeName) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.staged[name]
}
