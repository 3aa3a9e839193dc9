package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
)

const (
	defaultGrace = 30
	// minGrace is the least that a container is given after its hook, in seconds.
	minGrace = 2
)

// terminate ends the pod step by step; each round does what is left. Meanwhile it tells what the readiness probes find.
func (w *worker) terminate(ctx context.Context, p *corev1.Pod, gone bool, observed *cri.Pod, s *corev1.PodStatus, t *pod.Termination, tell func()) (again bool, next time.Duration, done bool) {
	if t.Failure != nil && w.memory.Failed == nil {
		w.memory.Failed = t.Failure
		w.cfg.Events.Event(p, "", corev1.EventTypeNormal, t.Failure.Reason, t.Failure.Message)
	}
	w.stopProbes(probe.Startup, probe.Liveness)
	if t.Delete || gone {
		w.tracer.stopping(w.cfg.Trace(p))
	}
	w.leave(ctx, p, observed, t)
	if ctx.Err() != nil {
		return true, 0, false
	}
	if w.stopRunning(ctx, p, s, observed, t.Grace, tell) {
		return true, 0, false
	}
	stopped := false
	for _, sandbox := range observed.Sandboxes {
		if !sandbox.Ready {
			continue
		}
		stopped = true
		if err := w.stopSandbox(ctx, sandbox.ID); err != nil {
			slog.WarnContext(ctx, "stop a sandbox", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
			return false, w.endRetry(), false
		}
	}
	w.over()
	if stopped && (!t.Delete && !gone || len(p.Finalizers) > 0) {
		return true, 0, false // that it has no sandbox any more is told of a pod that stays
	}
	if w.cfg.Claims.Holds(w.uid) {
		if err := w.cfg.Claims.Unprepare(ctx, w.uid); err != nil {
			slog.WarnContext(ctx, "take back what a pod has claimed", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
			return ctx.Err() != nil, w.endRetry(), false
		}
		tell() // it has ended
	}
	if !t.Delete && !gone {
		if err := w.cfg.Volumes.Release(ctx, p.UID); err != nil {
			slog.WarnContext(ctx, "take volumes from a pod that has ended", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
			return false, w.endRetry(), false
		}
		w.endPause = 0
		return false, idleRound, false
	}
	if err := w.clear(ctx, p, observed); err != nil {
		slog.WarnContext(ctx, "clear what a pod leaves", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		return ctx.Err() != nil, w.endRetry(), false
	}
	if !gone {
		w.cfg.Status.Delete(w.tracer.stopping(w.cfg.Trace(p)), p)
	}
	w.tracer.stopped()
	w.m.finished(w, p.UID, !gone)
	return false, 0, true
}

// endRetry is the pause after a step of the pod's end failed once more.
func (w *worker) endRetry() time.Duration {
	w.endPause = min(max(2*w.endPause, observeRetry), endRetryMax)
	return w.endPause
}

// stopRunning ends what runs: first the main containers together, then the
// sidecars, the last one first. It reports whether anything ran.
func (w *worker) stopRunning(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, observed *cri.Pod, grace *int64, tell func()) bool {
	var stops []pod.Stop
	for i := range observed.Containers {
		if run := &observed.Containers[i]; run.State == cri.Running || run.State == cri.Unknown {
			stops = append(stops, pod.Stop{Run: run, Message: "Stopping container " + run.Name, Grace: grace})
		}
	}
	if len(stops) == 0 {
		return false
	}
	w.stopAll(ctx, p, s, stops, ranks(p), tell)
	return true
}

// ranks say which containers end after which: those with lower ones after all with higher ones, which are the main containers, and before them sidecars as
// they started. Others, as ephemeral ones, wait for nobody.
func ranks(p *corev1.Pod) map[string]int {
	out := map[string]int{}
	for i := range p.Spec.InitContainers {
		if pod.Sidecar(&p.Spec.InitContainers[i]) {
			out[p.Spec.InitContainers[i].Name] = i
		}
	}
	if len(out) == 0 {
		return nil
	}
	for i := range p.Spec.Containers {
		out[p.Spec.Containers[i].Name] = len(p.Spec.InitContainers)
	}
	return out
}

// turns are what each run waits for before it is told to end, by container ID.
func turns(stops []pod.Stop, ranks map[string]int, ended map[string]chan struct{}) map[string][]<-chan struct{} {
	out := map[string][]<-chan struct{}{}
	for _, stop := range stops {
		own, ordered := ranks[stop.Run.Name]
		for _, other := range stops {
			if rank, ok := ranks[other.Run.Name]; ok && ordered && rank > own {
				out[stop.Run.ID] = append(out[stop.Run.ID], ended[other.Run.ID])
			}
		}
	}
	return out
}

// stopAll ends runs, by their ranks or at the same time, and returns when all have ended, or ctx. Their hooks run at once, and the time that a run waits for
// its turn is of its grace, as in Kubernetes. Each is asked until then whether it is ready, and
// tell, where it is given, is called when there may be news of it: load balancers take those that are not out of rotation.
func (w *worker) stopAll(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, stops []pod.Stop, ranks map[string]int, tell func()) {
	var wg sync.WaitGroup
	over, ended := map[string]chan struct{}{}, make(chan string, len(stops))
	for _, stop := range stops {
		over[stop.Run.ID] = make(chan struct{})
	}
	turns := turns(stops, ranks, over)
	for _, stop := range stops {
		w.stopProbe(stop.Run.ID, probe.Startup, probe.Liveness)
		w.cfg.Events.Event(p, stop.Run.Name, corev1.EventTypeNormal, "Killing", stop.Message)
		grace := w.grace(p, stop)
		if grace > 0 && w.waited > 0 {
			grace = max(grace-w.waited, 1)
		}
		wg.Go(func() {
			defer func() { ended <- stop.Run.ID }()
			defer close(over[stop.Run.ID])
			w.stop(ctx, p, s, stop.Run, grace, turns[stop.Run.ID])
		})
	}
	for range stops {
		id := w.tellUntil(ended, tell)
		w.stopProbe(id, probe.Readiness)
		delete(w.memory.Probes, id)
	}
	wg.Wait()
	if tell != nil {
		w.wake() // a signal that came meanwhile was perhaps for the rounds
	}
}

// remember keeps of the runs that are about to be stopped which start again, and forgets those that are no longer there.
func (w *worker) remember(observed *cri.Pod, stops []pod.Stop) {
	for id := range w.memory.Again {
		if observed.ByID(id) == nil {
			delete(w.memory.Again, id)
		}
	}
	for _, stop := range stops {
		if stop.Again {
			w.memory.Again[stop.Run.ID] = true
		}
	}
}

// tellUntil calls tell whenever something has woken the worker, until a run has ended, whose ID it returns.
func (w *worker) tellUntil(ended <-chan string, tell func()) string {
	var woken <-chan struct{}
	if tell != nil {
		woken = w.signal
	}
	for {
		select {
		case id := <-ended:
			return id
		case <-woken:
			tell()
		}
	}
}

// grace is how long a run may take to end, in seconds.
func (w *worker) grace(p *corev1.Pod, stop pod.Stop) int64 {
	switch {
	case stop.Grace != nil:
		return *stop.Grace
	case p.Spec.TerminationGracePeriodSeconds != nil:
		return *p.Spec.TerminationGracePeriodSeconds
	}
	// A pod of which only the runtime knows.
	if seconds, err := strconv.ParseInt(stop.Run.Annotations[cri.AnnotationGracePeriod], 10, 64); err == nil {
		return seconds
	}
	return defaultGrace
}

// stop ends one run: its hook first, within the grace, then those before it, then the signal, and
// when the grace is over, the kill.
func (w *worker) stop(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, run *cri.Container, grace int64, before []<-chan struct{}) {
	began := w.cfg.Clock.Now()
	waited := false
	left := func() int64 { return grace - int64(w.cfg.Clock.Since(began)/time.Second) }
	var hook corev1.LifecycleHandler
	if raw := run.Annotations[cri.AnnotationPreStop]; raw != "" && grace > 0 && json.Unmarshal([]byte(raw), &hook) == nil {
		defer w.untilHook(ctx, p, s, run, &hook, grace)()
		waited = true
	}
	if len(before) > 0 && left() > 0 {
		w.await(ctx, before, time.Duration(left())*time.Second)
		waited = true
	}
	if waited {
		grace = max(left(), minGrace)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(grace)*time.Second+callTimeout)
	defer cancel()
	if _, err := w.cfg.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: run.ID, Timeout: grace}); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "stop a container", "namespace", p.Namespace, "name", p.Name, "container", run.Name, "err", err)
	}
}

// untilHook runs the hook of a container that is about to end, and returns when that is over, or the grace. A hook that takes longer goes on beside the
// container, as in Kubernetes, until end is called.
func (w *worker) untilHook(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, run *cri.Container, hook *corev1.LifecycleHandler, grace int64) (end func()) {
	limit := time.Duration(grace) * time.Second
	own, cancel := context.WithCancel(ctx)
	if hook.Sleep != nil {
		own, cancel = context.WithTimeout(ctx, limit)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.preStop(own, p, s, run, hook)
	}()
	w.await(ctx, []<-chan struct{}{over}, limit)
	return func() {
		cancel()
		<-over
	}
}

// await waits until all of those have come, but no longer than that.
func (w *worker) await(ctx context.Context, all []<-chan struct{}, limit time.Duration) {
	timer := w.cfg.Clock.NewTimer(limit)
	defer timer.Stop()
	for _, one := range all {
		select {
		case <-one:
		case <-timer.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

// clear removes everything of the pod from the node.
func (w *worker) clear(ctx context.Context, p *corev1.Pod, observed *cri.Pod) error {
	for i := range observed.Containers {
		w.removeContainer(ctx, observed.Containers[i].ID)
	}
	for _, sandbox := range observed.Sandboxes {
		if _, err := w.removeSandbox(ctx, sandbox.ID); err != nil {
			return err
		}
	}
	if err := w.cfg.Volumes.Cleanup(ctx, p.UID); err != nil {
		return err
	}
	if err := w.cfg.Cgroups.Remove(p); err != nil {
		slog.Warn("remove a pod's control group", "uid", p.UID, "err", err)
	}
	w.cfg.Images.Forget(p.UID)
	return w.cfg.removeLogs(container.LogDirectory(w.cfg.Node().LogDir, p.Namespace, p.Name, string(p.UID)))
}

// removeLogs removes a folder of logs, of which others may want to know before.
func (c *Config) removeLogs(dir string) error {
	if c.LogsLeave != nil {
		c.LogsLeave(dir)
	}
	return errors.Join(os.RemoveAll(dir), c.LogLinks.Sweep())
}
