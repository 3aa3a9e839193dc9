package worker

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
)

// allocate returns the pod with the resources that it is given, which are those it asks for unless the node has not
// enough for a change.
func (w *worker) allocate(p *corev1.Pod) *corev1.Pod {
	var room pod.Room
	resized, trigger := pod.Resized(p, w.memory.Given), ""
	if resized {
		trigger = w.retried()
		room = w.cfg.Room(p)
	}
	given, pending := pod.Allocate(p, w.memory.Given, room)
	switch {
	case pending == nil && resized:
		w.resizing = true
		if w.deferred.Load() {
			w.cfg.Metrics.accepted.WithLabelValues(trigger).Inc()
		}
		w.cfg.Events.Event(p, "", corev1.EventTypeNormal, "ResizeStarted", pod.ResizeMessage(p, "Pod resize started", ""))
	case pending != nil && (w.memory.Pending == nil || *pending != *w.memory.Pending):
		if pending.Reason == corev1.PodReasonInfeasible {
			w.cfg.Metrics.refused.WithLabelValues(cmp.Or(room.FixedBy, "insufficient_node_allocatable")).Inc()
		}
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, "Resize"+pending.Reason, pod.ResizeMessage(p, "Pod resize "+pending.Reason, pending.Message))
	}
	w.memory.Pending, w.memory.Given = pending, pod.Given(given)
	w.deferred.Store(pending != nil && pending.Reason == corev1.PodReasonDeferred)
	return given
}

// retried is a kubelet's name for why a change of resources is tried once more.
func (w *worker) retried() string {
	switch why := w.retry.Swap(nil); {
	case why != nil:
		return *why
	case w.doing == update:
		return "pod_updated"
	}
	return "periodic_retry"
}

// resized tells of a change of resources that is done.
func (w *worker) resized(p *corev1.Pod, plan pod.Plan) {
	if !w.resizing || plan.Resizing || len(plan.Start) > 0 || plan.Terminate != nil {
		return
	}
	w.resizing = false
	w.cfg.Events.Event(p, "", corev1.EventTypeNormal, "ResizeCompleted", pod.ResizeMessage(p, "Pod resize completed", ""))
}

// regroup sets the limits of the pod as a whole: at first those under which each container may have its old or its new
// resources, at last the new ones. It reports whether it could.
func (w *worker) regroup(ctx context.Context, p *corev1.Pod, observed *cri.Pod, first bool) bool {
	var err error
	group := p
	if first {
		group = pod.Peak(p, w.applied(observed))
		err = w.checkWhole(ctx, p, observed)
	}
	if err == nil {
		err = w.cfg.Cgroups.Ensure(group)
	}
	if err != nil {
		w.resizeFailed(p, pod.WholePod, err)
		return false
	}
	if !first {
		w.regrouped(p)
	}
	return true
}

// regrouped notes that the pod's group has what the pod asks for as a whole.
func (w *worker) regrouped(p *corev1.Pod) {
	delete(w.memory.Resize, pod.WholePod)
	whole := pod.Whole(p)
	w.memory.Applied[pod.WholePod] = whole
}

// applied are the resources that the pod and its runs have, by container name and WholePod.
func (w *worker) applied(observed *cri.Pod) map[string]corev1.ResourceRequirements {
	applied := map[string]corev1.ResourceRequirements{}
	if had, ok := w.memory.Applied[pod.WholePod]; ok {
		applied[pod.WholePod] = had
	}
	for i := range observed.Containers {
		run := &observed.Containers[i]
		if had, ok := w.memory.Applied[run.ID]; ok {
			applied[run.Name] = had
		}
	}
	return applied
}

// checkWhole refuses a limit of the pod's memory that is below what its containers use: the kernel would end one to get below it.
func (w *worker) checkWhole(ctx context.Context, p *corev1.Pod, observed *cri.Pod) error {
	was, is := w.memory.Applied[pod.WholePod].Limits[corev1.ResourceMemory], pod.Whole(p).Limits[corev1.ResourceMemory]
	if !lowers(was, is) {
		return nil
	}
	var used int64
	for i := range observed.Containers {
		if run := &observed.Containers[i]; run.State == cri.Running {
			bytes, err := w.memoryUsed(ctx, run.ID)
			if err != nil {
				return err
			}
			used += bytes
		}
	}
	if used >= is.Value() {
		return fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", is.Value(), used)
	}
	return nil
}

// lowers reports whether a limit becomes less than it was; none is the highest.
func lowers(was, is resource.Quantity) bool {
	return !is.IsZero() && (was.IsZero() || is.Cmp(was) < 0)
}

// memoryUsed returns the bytes that a run cannot do without.
func (w *worker) memoryUsed(ctx context.Context, id string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stats, err := w.cfg.Runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	return int64(stats.GetStats().GetMemory().GetWorkingSetBytes().GetValue()), err
}

// resize gives running containers other resources and reports whether it got anywhere.
func (w *worker) resize(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, list []pod.Resize) bool {
	all := true
	for _, r := range list {
		err := w.adjust(ctx, p, s, r)
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			w.resizeFailed(p, r.Name, err)
			all = false
			continue
		}
		w.memory.Apply(r.ID, pod.Whole(p), r.To)
		delete(w.memory.Resize, r.Name)
	}
	if all {
		all = w.regroup(ctx, p, observed, false)
	}
	return all
}

func (w *worker) resizeFailed(p *corev1.Pod, name string, err error) {
	if w.memory.Resize[name].Message != err.Error() { // of what goes on failing nothing more is said
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, "ResizeError", pod.ResizeMessage(p, "Pod resize error", plain(err)))
	}
	w.memory.Resize[name] = w.later(w.memory.Resize[name], corev1.PodReasonError, err)
}

func (w *worker) adjust(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, r pod.Resize) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	was, is := w.memory.Has(p, r.ID).Limits[corev1.ResourceMemory], pod.Within(pod.Whole(p), r.To).Limits[corev1.ResourceMemory]
	if lowers(was, is) {
		// The kernel would end the container to get below its new limit.
		used, err := w.memoryUsed(ctx, r.ID)
		if err != nil {
			return err
		}
		if used >= is.Value() {
			return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", r.Name, is.Value(), used)
		}
	}
	_, err := w.cfg.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: r.ID, Linux: container.Resources(p, specOf(p, r.Name), w.cfg.Node()),
	})
	return err
}
