package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
	"howdah.dev/nodeagent/internal/volume"
)

const (
	// observeRetry is the pause after the runtime did not answer.
	observeRetry = time.Second
	// endRetryMax is the longest pause after a step of a pod's end failed; the first is observeRetry, and each is twice the one before.
	endRetryMax = 16 * time.Second
	// idleRound is how often a worker looks though nothing happened.
	idleRound = 2 * time.Minute
)

// worker is one pod's goroutine. What is below mu is shared; the rest is the
// goroutine's own.
type worker struct {
	m   *Manager
	cfg *Config
	uid types.UID

	mu     sync.Mutex
	pod    *corev1.Pod
	gone   bool               // it has left the API
	found  map[string]finding // of probes, by run
	cancel context.CancelFunc // of the round's long actions
	// evicted is why the agent itself ends the pod; nil where it does not.
	evicted *pod.Failure
	// stopped is closed once nothing of the pod runs, and nothing will.
	stopped  chan struct{}
	stopOnce sync.Once
	overAt   time.Time // when it was; not to be read before

	signal chan struct{}
	asked  requests
	doing  operation // what the rounds are for that run now
	seen   time.Time // when the agent first saw the pod
	// adopted says that only the runtime knows the pod.
	adopted bool
	memory  *pod.Memory
	probes  map[string]context.CancelFunc
	tracer  podTrace
	// resizing says that other resources were given to the pod, and that it was not told that it has them.
	resizing bool
	// deferred says that the pod waits for room on the node.
	deferred atomic.Bool
	// retry is why it may have room now, by a kubelet's names; nil where nobody said so.
	retry atomic.Pointer[string]
	fresh bool // the first round is still to come
	// left says that the pod need not wait for its services any more; waited are the seconds that it did.
	left   bool
	waited int64
	// endPause is how long the last failed step of the pod's end made it wait; 0 where none did.
	endPause time.Duration
	// refresh is when to bring written volumes up to date.
	refresh time.Time
}

func newWorker(m *Manager, p *corev1.Pod) *worker {
	w := &worker{
		m: m, cfg: &m.cfg, uid: p.UID, pod: p, found: map[string]finding{}, signal: make(chan struct{}, 1), stopped: make(chan struct{}),
		memory: pod.NewMemory(), probes: map[string]context.CancelFunc{}, fresh: true, seen: m.cfg.Clock.Now(),
	}
	w.asked.add(create, w.seen)
	w.memory.MaxDelay = m.cfg.MaxRestartPeriod
	w.tracer = newPodTrace(m.cfg.Trace(p), p, m.cfg.Clock)
	w.wake()
	return w
}

func (w *worker) wake() {
	w.asked.add(look, w.cfg.Clock.Now())
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// update gives the worker a newer pod. A pod that is now to end, or to end
// sooner, interrupts what the worker is doing.
func (w *worker) update(p *corev1.Pod, gone bool) {
	w.mu.Lock()
	ends := ending(p, gone) && (!ending(w.pod, w.gone) || sooner(p, w.pod) || gone != w.gone)
	if ends && w.cancel != nil {
		w.cancel()
	}
	what := asks(w.pod, p, ends)
	if what == update {
		w.cfg.Metrics.requested(w.pod, p)
	}
	w.pod, w.gone = p, w.gone || gone
	w.mu.Unlock()
	w.asked.add(what, w.cfg.Clock.Now())
	w.wake()
}

// evict ends the pod for a reason of the agent's own, and interrupts what the worker is doing. It reports whether it was the first.
func (w *worker) evict(why *pod.Failure) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.evicted != nil {
		return false
	}
	w.evicted = why
	w.asked.add(kill, w.cfg.Clock.Now())
	if w.cancel != nil {
		w.cancel()
	}
	w.wake()
	return true
}

// over says that nothing of the pod runs, and nothing will.
func (w *worker) over() {
	w.stopOnce.Do(func() {
		w.cfg.Assigner.Release(w.uid)
		w.overAt = w.cfg.Clock.Now()
		close(w.stopped)
	})
}

func ending(p *corev1.Pod, gone bool) bool { return gone || p.DeletionTimestamp != nil }

func sooner(a, b *corev1.Pod) bool {
	return a.DeletionGracePeriodSeconds != nil && b.DeletionGracePeriodSeconds != nil &&
		*a.DeletionGracePeriodSeconds < *b.DeletionGracePeriodSeconds
}

// run rounds until the pod has left, or ctx ends.
func (w *worker) run(ctx context.Context) {
	defer w.stopProbes(probe.Startup, probe.Liveness, probe.Readiness)
	defer w.tracer.end()
	timer := w.cfg.Clock.NewTimer(idleRound)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.signal:
		case <-timer.C():
		}
		what, since := w.asked.take(w.cfg.Clock.Now())
		w.doing = what
		next, done := w.rounds(ctx)
		if done {
			what = terminated
		}
		w.cfg.Metrics.worked(what, since)
		if done || ctx.Err() != nil {
			return
		}
		timer.Stop()
		select {
		case <-timer.C():
		default:
		}
		timer.Reset(next)
	}
}

// rounds repeats rounds while they get something done and returns when to
// look again.
func (w *worker) rounds(ctx context.Context) (next time.Duration, done bool) {
	for {
		actionCtx, cancel := context.WithCancel(ctx)
		w.mu.Lock()
		p, gone := w.pod, w.gone
		w.cancel = cancel
		if w.memory.Failed == nil {
			w.memory.Failed = w.evicted
		}
		w.mu.Unlock()
		if gone {
			p = deleted(p, w.cfg.Clock.Now())
		}
		again, next, done := w.round(ctx, actionCtx, p, gone)
		cancel()
		if done || ctx.Err() != nil || !again {
			return next, done
		}
	}
}

// round looks, plans, reports and acts once. actionCtx ends when the pod is
// suddenly to end.
func (w *worker) round(ctx, actionCtx context.Context, p *corev1.Pod, gone bool) (again bool, next time.Duration, done bool) {
	observed, err := w.cfg.Observer.Observe(ctx, w.uid)
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("look at a pod in the runtime", "namespace", p.Namespace, "name", p.Name, "uid", w.uid, "err", err)
		}
		return false, observeRetry, false
	}
	if !w.begin(ctx, actionCtx, p, observed) {
		return true, 0, false
	}
	w.recall(observed)
	w.readMessages(observed)
	asked := p
	p = w.allocate(p)
	plan, status := w.look(p, observed)
	w.resized(p, plan)
	if !w.replaces(actionCtx, p, plan) {
		w.report(asked, gone, observed, &status)
	}
	if plan.Terminate != nil {
		return w.terminate(actionCtx, p, gone, observed, &status, plan.Terminate, func() {
			w.recall(observed)
			_, status := w.look(p, observed)
			w.report(asked, gone, observed, &status)
		})
	}
	w.watch(ctx, p, observed, &status)
	again = w.act(actionCtx, p, observed, &status, plan)
	w.refreshVolumes(actionCtx, p, observed, &status)
	next = idleRound
	for _, at := range []time.Time{plan.Wake, w.refresh} {
		if !at.IsZero() {
			next = min(next, max(at.Sub(w.cfg.Clock.Now()), time.Millisecond))
		}
	}
	for _, trouble := range w.waits() {
		next = min(next, max(trouble.Sub(w.cfg.Clock.Now()), time.Millisecond))
	}
	return again, next, false
}

// look says what is to be done for the pod, and how it stands.
func (w *worker) look(p *corev1.Pod, observed *cri.Pod) (pod.Plan, corev1.PodStatus) {
	now := w.cfg.Clock.Now()
	plan := pod.Make(p, observed, w.memory, now)
	return plan, pod.Status(p, observed, w.memory, plan, pod.Facts{
		HostIPs: w.cfg.HostIPs(), Now: now, RecursiveReadOnly: w.cfg.Node().RecursiveReadOnly(handlerOf(observed)), Health: func(container string) []corev1.ResourceStatus { return w.health(p, container) },
		Holds: w.cfg.Claims.Holds(w.uid),
	})
}

// handlerOf is the handler that runs the pod, the default one before any does.
func handlerOf(observed *cri.Pod) string {
	if sandbox := observed.Sandbox(); sandbox != nil {
		return sandbox.Handler
	}
	return ""
}

// health tells how the devices of a container are.
func (w *worker) health(p *corev1.Pod, container string) []corev1.ResourceStatus {
	if w.cfg.Health == nil {
		return nil
	}
	return w.cfg.Health(p, container)
}

// waits are the times at which something that failed is tried again.
func (w *worker) waits() []time.Time {
	now := w.cfg.Clock.Now()
	var times []time.Time
	add := func(t pod.Trouble) {
		if t.Until.After(now) {
			times = append(times, t.Until)
		}
	}
	add(w.memory.Sandbox)
	add(w.memory.Volumes)
	add(w.memory.Claims)
	for _, t := range w.memory.Trouble {
		add(t)
	}
	for _, t := range w.memory.Resize {
		add(t)
	}
	return times
}

// begin seeds the memory in the first round: what runs already was started
// by the agent's earlier life, and is as ready as the API says. It reports false where the wait for the pod's room was interrupted.
func (w *worker) begin(ctx, actionCtx context.Context, p *corev1.Pod, observed *cri.Pod) bool {
	if !w.fresh {
		return true
	}
	w.fresh = false
	if len(observed.Sandboxes) > 0 {
		w.tracer.drop() // not this life's start
	} else if p.Status.StartTime == nil && p.DeletionTimestamp == nil {
		var room []<-chan struct{}
		if w.memory.Failed, room = w.m.admit(ctx, p); !await(actionCtx, room) {
			return false // it is to end itself
		}
	}
	if w.memory.Failed == nil && p.Status.StartTime != nil && !w.adopted && pod.Make(p, observed, w.memory, w.cfg.Clock.Now()).NewSandbox {
		w.memory.Failed = w.m.readmit(ctx, p)
	}
	if w.memory.Failed == nil && !w.adopted {
		w.cfg.Metrics.took(p, w.seen)
	}
	around := pod.Whole(p)
	if given, applied, ok := pod.ToldWhole(p); ok && len(observed.Sandboxes) > 0 {
		w.memory.Given[pod.WholePod], w.memory.Applied[pod.WholePod], around = given, applied, applied
	}
	for i := range p.Spec.EphemeralContainers { // they ask for nothing themselves
		if run := observed.Latest(p.Spec.EphemeralContainers[i].Name); run != nil && run.State == cri.Running {
			w.memory.Apply(run.ID, around, corev1.ResourceRequirements{})
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, told := range list {
			if told.Resources != nil && told.ContainerID != "" {
				w.memory.Given[told.Name] = *told.Resources
			}
			run := observed.Latest(told.Name)
			if run == nil || run.State != cri.Running || told.ContainerID != "containerd://"+run.ID {
				continue
			}
			if told.Resources != nil {
				w.memory.Apply(run.ID, around, *told.Resources)
			}
			w.memory.Probes[run.ID] = pod.Probed{Started: told.Started != nil && *told.Started, Ready: told.Ready}
		}
	}
	return true
}

// await waits until all are closed; false says that ctx has ended before.
func await(ctx context.Context, all []<-chan struct{}) bool {
	for _, one := range all {
		select {
		case <-one:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// report hands the status to the writer. Of a pod that has left the API there
// is nothing to say.
func (w *worker) report(p *corev1.Pod, gone bool, observed *cri.Pod, status *corev1.PodStatus) {
	w.tracer.status(status)
	w.cfg.Metrics.observe(p, status)
	if gone {
		return
	}
	w.cfg.Status.Set(w.tracer.context(), p, *status)
}

// replaces reports whether the plan is to start containers at once in the place of ones whose definition was changed. Of the moment between
// the two nothing is said, as a kubelet says nothing of it: the pod stays as ready as it was, and its Services need not drop it and take it back.
func (w *worker) replaces(ctx context.Context, p *corev1.Pod, plan pod.Plan) bool {
	for _, start := range plan.Start {
		if !start.Replaces || !w.cfg.Images.Present(ctx, p, image.ForContainer(start.Container)) {
			return false
		}
	}
	return len(plan.Start) > 0
}

// refreshVolumes keeps volumes current while the pod runs.
func (w *worker) refreshVolumes(ctx context.Context, p *corev1.Pod, observed *cri.Pod, status *corev1.PodStatus) {
	if !observed.AnyRunning() || !refreshed(p) {
		return
	}
	now := w.cfg.Clock.Now()
	// Spread, so that a restarted node does not ask for everything at once.
	spread := w.cfg.RefreshEvery + time.Duration(rand.Int64N(int64(w.cfg.RefreshEvery)/2+1))
	if w.refresh.IsZero() {
		w.refresh = now.Add(spread)
	}
	if now.Before(w.refresh) {
		return
	}
	w.refresh = now.Add(spread)
	if err := w.cfg.Volumes.Refresh(ctx, p, status); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "refresh volumes", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, volume.Reason(err), err.Error())
	}
}

func refreshed(p *corev1.Pod) bool {
	return slices.ContainsFunc(volume.Used(p), volume.Refreshed)
}
