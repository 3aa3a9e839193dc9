// Package worker brings pods to what the API asks: one goroutine a pod that
// looks at the runtime, plans, acts, reports, and waits for the next event.
package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
)

// Status writes what is said of pods.
type Status interface {
	Set(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus)
	Delete(ctx context.Context, pod *corev1.Pod)
	Forget(uid types.UID)
}

// Volumes makes and removes what pods mount.
type Volumes interface {
	Setup(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) (container.Volumes, error)
	Refresh(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error
	SubPath(pod *corev1.Pod, container, volumePath, sub string) (string, error)
	// Release takes from a pod that has ended what others may wait for.
	Release(ctx context.Context, uid types.UID) error
	Cleanup(ctx context.Context, uid types.UID) error
}

// Images makes sure that images are there.
type Images interface {
	Ensure(ctx context.Context, pod *corev1.Pod, want image.Want) (image.Image, error)
	// Present reports whether the image is there for the pod, and is not to be pulled anew.
	Present(ctx context.Context, pod *corev1.Pod, want image.Want) bool
	Forget(pod types.UID)
}

// Cgroups keeps the pods' control groups.
type Cgroups interface {
	Path(pod *corev1.Pod) string
	Ensure(pod *corev1.Pod) error
	Remove(pod *corev1.Pod) error
}

// Assigner gives containers what they have of the node for themselves: devices, CPUs, memory of NUMA nodes.
type Assigner interface {
	// Admit gives the pod what its containers ask for, and returns why it cannot, nil where it could.
	Admit(ctx context.Context, p *corev1.Pod) *pod.Failure
	// Own returns what a container has; it is about to start.
	Own(ctx context.Context, p *corev1.Pod, c *corev1.Container) (container.Own, error)
	// Release takes all of it back.
	Release(uid types.UID)
}

// Claims prepares devices that pods claim.
type Claims interface {
	// Prepare has the devices ready before anything of the pod runs.
	Prepare(ctx context.Context, p *corev1.Pod) error
	// Holds reports whether something is prepared for a pod, or might be.
	Holds(uid types.UID) bool
	// Unprepare takes back what the pod alone has used; nothing of it runs any more.
	Unprepare(ctx context.Context, uid types.UID) error
}

// Classes knows the cluster's RuntimeClasses.
type Classes interface {
	// RuntimeHandler returns the runtime's handler of a class, "" for its default.
	RuntimeHandler(ctx context.Context, class string) (string, error)
}

// Users gives pods users of their own.
type Users interface {
	// Of returns a pod's, the same as long as anything of it is on the node; the zero value where it shares the node's.
	Of(p *corev1.Pod) (container.Users, error)
}

// Events tells people of what happens to a pod; container may be empty.
type Events interface {
	Event(pod *corev1.Pod, container, kind, reason, message string)
}

// Config of a Manager.
type Config struct {
	Runtime  runtimeapi.RuntimeServiceClient
	Observer *cri.Observer
	Images   Images
	Volumes  Volumes
	Cgroups  Cgroups
	Objects  container.Objects
	Assigner Assigner
	Claims   Claims
	Classes  Classes
	Users    Users
	Status   Status
	Events   Events
	Probes   *probe.Runner
	Clock    clock.Clock
	Metrics  *Metrics
	// Node and HostIPs describe the node as it is now.
	Node    func() container.Node
	HostIPs func() []string
	// Trace returns the trace of the pod's last change.
	Trace    func(pod *corev1.Pod) trace.SpanContext
	Rotation Rotation
	// Health, which may be nil, tells how the devices of a container are.
	Health func(p *corev1.Pod, container string) []corev1.ResourceStatus
	// Room is what the node has for a pod that asks for more than it was given.
	Room func(p *corev1.Pod) pod.Room
	// Site is what new pods are to run on; its other pods are all that are bound to the node.
	Site func() admit.Site
	// FreshNode asks the API for the node as it is now.
	FreshNode func(ctx context.Context) (*corev1.Node, error)
	// Networked takes what the network's plugin has left to say of a new sandbox.
	Networked func(sandbox string) (cni.Added, bool)
	// Isolate waits until what network policies say of the pod is in force in its sandbox: nothing of it may run before.
	Isolate func(ctx context.Context, p *corev1.Pod, sandbox string) error
	// Ended, which may be nil, hears of every pod of which nothing is left on the node.
	Ended func(uid types.UID)
	// LogsLeave, which may be nil, hears of every folder or file of logs that is about to be removed.
	LogsLeave func(path string)
	// LogLinks has a link to each container's log.
	LogLinks logs.Links
	// RefreshEvery is how often written volumes are brought up to date.
	RefreshEvery time.Duration
	// MaxRestartPeriod is the longest delay before a failing container starts again; 0 is pod.BackoffMax.
	MaxRestartPeriod time.Duration
}

// Manager owns the workers.
type Manager struct {
	cfg Config

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	workers map[types.UID]*worker
	gone    map[types.UID]time.Time // pods that have ended here, until the API forgets them too
	running sync.WaitGroup

	admission sync.Mutex         // one pod is admitted after the other
	taken     map[types.UID]bool // pods that the node took in this life of the agent and that are still here; below mu
}

// New returns a Manager; it does nothing before Run.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, workers: map[types.UID]*worker{}, gone: map[types.UID]time.Time{}, taken: map[types.UID]bool{}}
	cfg.Metrics.manager.Store(m)
	return m
}

// Run lets the workers run until ctx ends, and waits for them. Containers
// run on.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.ctx = ctx
	for _, w := range m.workers {
		m.launch(w)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.running.Wait()
	return ctx.Err()
}

func (m *Manager) launch(w *worker) {
	m.running.Go(func() { w.run(m.ctx) })
}

// Update gives a pod's worker its newest specification.
func (m *Manager) Update(p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ended := m.gone[p.UID]; ended {
		return
	}
	m.cfg.Metrics.seen(p)
	w, ok := m.workers[p.UID]
	if !ok {
		w = newWorker(m, p)
		m.workers[p.UID] = w
		if m.ctx != nil {
			m.launch(w)
		}
		return
	}
	w.update(p, false)
	if pod.Finished(p) {
		m.roomier("pod_terminated")
	}
}

// roomier wakes the pods that wait for room on the node; why is a kubelet's name for what has made some. The lock is held.
func (m *Manager) roomier(why string) {
	for _, w := range m.workers {
		if w.deferred.Load() {
			w.retry.Store(&why)
			w.wake()
		}
	}
}

// Remove tells that a pod has left the API: what is left of it ends.
func (m *Manager) Remove(p *corev1.Pod) {
	m.cfg.Status.Forget(p.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, p.UID)
	if w, ok := m.workers[p.UID]; ok {
		w.update(p, true)
	}
	m.roomier("pods_removed")
}

// Adopt ends a pod of which only the runtime knows.
func (m *Manager) Adopt(uid types.UID, namespace, name string) {
	pod := &corev1.Pod{}
	pod.UID, pod.Namespace, pod.Name = uid, namespace, name
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.workers[uid]; ok {
		return
	}
	slog.Info("ending a pod that the API does not know", "namespace", namespace, "name", name, "uid", uid)
	w := newWorker(m, pod)
	w.gone, w.adopted = true, true
	m.cfg.Metrics.orphans.Inc()
	m.workers[uid] = w
	if m.ctx != nil {
		m.launch(w)
	}
}

// Wake makes a pod's worker look again.
func (m *Manager) Wake(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok := m.workers[uid]; ok {
		w.wake()
	}
}

// Knows reports whether a pod has a worker, or has just ended.
func (m *Manager) Knows(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, works := m.workers[uid]
	_, ended := m.gone[uid]
	return works || ended
}

// finished removes a worker that has nothing left to do.
func (m *Manager) finished(w *worker, uid types.UID, known bool) {
	m.cfg.Assigner.Release(uid)
	m.forget(uid, known)
	if m.cfg.Ended != nil {
		m.cfg.Ended(uid)
	}
}

func (m *Manager) forget(uid types.UID, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.workers, uid)
	delete(m.taken, uid)
	m.cfg.Metrics.forget(uid)
	if known { // the informer may bring the pod once more before it is gone
		m.gone[uid] = m.cfg.Clock.Now()
	}
	for old, at := range m.gone {
		if m.cfg.Clock.Since(at) > 10*time.Minute {
			delete(m.gone, old)
		}
	}
}

// deleted returns a copy of the pod that is to end now.
func deleted(pod *corev1.Pod, now time.Time) *corev1.Pod {
	if pod.DeletionTimestamp != nil {
		return pod
	}
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: now}
	return out
}
