// Package simulate runs hollow nodes: they register, renew leases and take
// pods, which become ready after a moment and go when they are deleted, but
// nothing runs. All of them share one watch, one writer and one clock.
package simulate

import (
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/pod"
)

// Status writes what is said of pods.
type Status interface {
	Set(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus)
	Delete(ctx context.Context, pod *corev1.Pod)
	Forget(uid types.UID)
}

// Config of a fleet of hollow nodes.
type Config struct {
	Prefix  string // of the nodes' names: <prefix>-0000
	Nodes   int
	Labels  func(i int) map[string]string // may be nil
	Client  *object.Client
	Pods    *object.Informer[*corev1.Pod]
	Known   *object.Informer[*corev1.Node] // what the API has of the nodes; names and conditions are looked at
	Status  Status
	Clock   clock.Clock
	Version string
	// StartDelay is how long a pod takes to be ready, StopDelay to end; both are varied by half.
	StartDelay, StopDelay time.Duration
	// CPU, in cores, Memory, in bytes, and MaxPods of each node.
	CPU, Memory, MaxPods int64
}

// Fleet is a number of hollow nodes.
type Fleet struct {
	cfg   Config
	names map[string]int

	mu     sync.Mutex
	queue  queue
	pods   map[types.UID]*hollow
	used   map[netip.Addr]bool
	next   netip.Addr
	signal chan struct{}
}

// hollow is a pod on one of the nodes.
type hollow struct {
	pod     *corev1.Pod
	trace   trace.SpanContext
	ip      netip.Addr
	running bool
	due     time.Time // of its next step
	index   int       // in the queue; -1 is not in it
}

// New returns a fleet; it starts nothing.
func New(cfg Config) *Fleet {
	f := &Fleet{
		cfg: cfg, names: map[string]int{}, pods: map[types.UID]*hollow{}, used: map[netip.Addr]bool{},
		next: netip.MustParseAddr("10.128.0.1"), signal: make(chan struct{}, 1),
	}
	for i := range cfg.Nodes {
		f.names[f.name(i)] = i
	}
	cfg.Pods.AddHandler(f.change)
	return f
}

func (f *Fleet) name(i int) string { return fmt.Sprintf("%s-%04d", f.cfg.Prefix, i) }

// change is called for every change of any pod.
func (f *Fleet) change(old, now *corev1.Pod) {
	if now == nil {
		f.remove(old.UID)
		return
	}
	if old != nil && old.UID != now.UID {
		f.remove(old.UID)
	}
	if _, ours := f.names[now.Spec.NodeName]; !ours {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.pods[now.UID]
	if h == nil {
		if pod.Finished(now) && now.DeletionTimestamp == nil {
			return
		}
		h = &hollow{index: -1}
		f.pods[now.UID] = h
		if ip, err := netip.ParseAddr(now.Status.PodIP); err == nil { // of an earlier life of this process
			h.ip, h.running = ip, now.Status.Phase == corev1.PodRunning
			f.used[ip] = true
		}
		h.pod = now
		h.trace = f.cfg.Pods.Trace(now)
		switch {
		case now.DeletionTimestamp != nil:
			f.schedule(h, f.cfg.StopDelay)
		case !h.running, unseen(now):
			f.schedule(h, f.cfg.StartDelay)
		}
		return
	}
	ends := h.pod.DeletionTimestamp == nil && now.DeletionTimestamp != nil
	changes := h.running && unseen(now)
	h.pod = now
	switch {
	case ends:
		h.trace = f.cfg.Pods.Trace(now)
		f.schedule(h, f.cfg.StopDelay)
	case changes && now.DeletionTimestamp == nil:
		h.trace = f.cfg.Pods.Trace(now)
		f.schedule(h, 0)
	}
}

// unseen reports whether a pod that runs has another spec than the one that its status is about, or its readiness gates turned since.
func unseen(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && (p.Status.ObservedGeneration < p.Generation || pod.GatesTurned(p))
}

func (f *Fleet) remove(uid types.UID) {
	f.cfg.Status.Forget(uid)
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.pods[uid]
	if h == nil {
		return
	}
	delete(f.pods, uid)
	delete(f.used, h.ip)
	if h.index >= 0 {
		heap.Remove(&f.queue, h.index)
	}
}

// schedule sets when a pod takes its next step. The caller holds mu.
func (f *Fleet) schedule(h *hollow, delay time.Duration) {
	if delay > 0 {
		delay = delay/2 + time.Duration(rand.Int64N(int64(delay)))
	}
	h.due = f.cfg.Clock.Now().Add(delay)
	if h.index >= 0 {
		heap.Fix(&f.queue, h.index)
	} else {
		heap.Push(&f.queue, h)
	}
	if f.queue[0] == h {
		select {
		case f.signal <- struct{}{}:
		default:
		}
	}
}

// RunPods lets pods take their steps when they are due, until ctx ends.
func (f *Fleet) RunPods(ctx context.Context) error {
	timer := f.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := f.step()
		timer.Stop()
		select {
		case <-timer.C():
		default:
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.signal:
		case <-timer.C():
		}
	}
}

// step lets every pod that is due take its step and returns when the next is.
func (f *Fleet) step() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Clock.Now()
	for len(f.queue) > 0 {
		h := f.queue[0]
		if wait := h.due.Sub(now); wait > 0 {
			return wait
		}
		heap.Pop(&f.queue)
		ctx := obs.Untraced(context.Background())
		if h.trace.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(context.Background(), h.trace)
		}
		if h.pod.DeletionTimestamp != nil {
			f.cfg.Status.Delete(ctx, h.pod)
			continue
		}
		if h.running {
			if unseen(h.pod) { // nobody has ended it since
				f.cfg.Status.Set(ctx, h.pod, changed(h.pod, now))
			}
			continue
		}
		if !h.ip.IsValid() {
			h.ip = f.address()
		}
		h.running = true
		f.cfg.Status.Set(ctx, h.pod, running(h.pod, h.ip.String(), f.nodeIP(f.names[h.pod.Spec.NodeName]), now))
	}
	return time.Hour
}

// address returns an address that no pod has. The caller holds mu.
func (f *Fleet) address() netip.Addr {
	for {
		candidate := f.next
		if f.next = f.next.Next(); f.next.As4()[0] != 10 {
			f.next = netip.MustParseAddr("10.128.0.1")
		}
		if last := candidate.As4()[3]; last == 0 || last == 255 || f.used[candidate] {
			continue
		}
		f.used[candidate] = true
		return candidate
	}
}

// Run registers the nodes and lives their lives until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	nodes, err := f.register(obs.Untraced(ctx))
	if err != nil {
		return err
	}
	slog.Info("hollow nodes registered", "nodes", len(nodes))
	return f.renew(obs.Untraced(ctx), nodes)
}

// queue orders pods by when they are due.
type queue []*hollow

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	h := x.(*hollow)
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	h.index = -1
	return h
}
