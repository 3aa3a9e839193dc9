package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/task"
	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/queue"
	"howdah.dev/services/scheduler/internal/storage"
)

const (
	// bindBatch is how many decisions one call carries: large enough to share
	// a commit, small enough that the first pods need not wait for the last.
	bindBatch = 250
	// binders is how many calls are under way at once.
	binders = 4
	// bindTimeout bounds a call; what it did not answer is tried again.
	bindTimeout = 10 * time.Second
)

// decision is what the cycle decided for one pod.
type decision struct {
	item    *queue.Item
	node    string // empty: no node is feasible, and message says why
	message string
	ahead   string // the filter that refused all nodes before any was asked; "" for none
	cause   string // which filters refused nodes; "" is not known
	// failure says that no node refused the pod: something else went wrong, and the pod is to be tried again without any change.
	failure bool
	// again says that there is room meanwhile: the pod is to be tried again, when what made it has been told of or after a while.
	again bool
	// room is what is to be done for the pod to find a node later; nil for nothing.
	room *room
	// volumes are to be bound before the pod goes to its node; nil for none. volumesDone says that they are.
	volumes     *storage.Choice
	volumesDone bool
	volumesSpan trace.Span
	// devices are to be written before the pod goes to its node; nil for none. devicesDone says that they are.
	devices     *device.Choice
	devicesDone bool
	// release is a claim whose devices are to be given back; nil for none.
	release *resourcev1.ResourceClaim
	// began is when the cycle did that it was decided in; told says that the outcome is counted.
	began time.Time
	told  bool
	// preBinding is when what goes before the binding began to be written; zero where nothing does.
	preBinding time.Time
	ctx        context.Context // in the decision's span
	span       trace.Span
}

// mustBind reports whether the volumes of the pod are not bound yet.
func (d decision) mustBind() bool { return d.volumes != nil && !d.volumesDone }

// fails makes it a decision for no node, for a reason that lies not in the nodes.
func (d *decision) fails(message string) { d.node, d.message, d.failure = "", message, true }

// trace begins the decision's span as a continuation of the trace that
// created the pod, with its wait, filters and scores as children.
func (d *decision) trace(cause trace.SpanContext, timing cycle.Timing) {
	if !cause.IsSampled() {
		d.ctx = obs.Untraced(context.Background())
		d.span = trace.SpanFromContext(d.ctx)
		return
	}
	tracer := otel.Tracer("howdah.dev/services/scheduler")
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), cause)
	d.ctx, d.span = tracer.Start(ctx, "scheduler.schedule", trace.WithTimestamp(d.item.Added),
		trace.WithAttributes(obs.ObjectAttributes("Pod", d.item.Pod)...),
		trace.WithAttributes(attribute.String("howdah.node", d.node), attribute.Int("howdah.attempt", d.item.Attempts+1)))
	part := func(name string, start, end time.Time, attributes ...attribute.KeyValue) {
		_, span := tracer.Start(d.ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
		span.End(trace.WithTimestamp(end))
	}
	part("scheduler.queue", d.item.Added, timing.Start)
	part("scheduler.filters", timing.Start, timing.Filtered, attribute.Int("howdah.feasible_nodes", timing.Feasible))
	part("scheduler.scores", timing.Filtered, timing.Scored)
}

// binder writes decisions to the API.
type binder struct {
	s    *Server
	work chan []decision

	pods    object.Resource[*corev1.Pod]
	volumes object.Resource[*corev1.PersistentVolume]
	claims  object.Resource[*corev1.PersistentVolumeClaim]
	devices object.Resource[*resourcev1.ResourceClaim]
}

func newBinder(s *Server) *binder {
	return &binder{
		s: s, work: make(chan []decision, binders), pods: object.For(s.cfg.Objects, object.Pod),
		volumes: object.For(s.cfg.Objects, object.PersistentVolume), claims: object.For(s.cfg.Objects, object.PersistentVolumeClaim),
		devices: object.For(s.cfg.Objects, object.ResourceClaim),
	}
}

// take queues decisions for writing; it waits while all binders are busy.
func (b *binder) take(ctx context.Context, decisions []decision) error {
	for start := 0; start < len(decisions); start += bindBatch {
		select {
		case b.work <- decisions[start:min(start+bindBatch, len(decisions))]:
		case <-ctx.Done():
			b.abandon(decisions[start:])
			return ctx.Err()
		}
	}
	return nil
}

// Run writes until ctx ends.
func (b *binder) Run(ctx context.Context) error {
	workers := make([]task.Func, binders)
	for i := range workers {
		workers[i] = func(ctx context.Context) error {
			for {
				select {
				case decisions := <-b.work:
					b.write(ctx, decisions)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	}
	workers = append(workers, func(ctx context.Context) error { return b.s.volumes.run(ctx, b.take) })
	return task.Run(ctx, workers...)
}

// drain gives back what was decided and not written, when nobody decides or
// writes any more: whoever leads next decides anew.
func (b *binder) drain() {
	for {
		select {
		case decisions := <-b.work:
			b.abandon(decisions)
		default:
			b.abandon(b.s.volumes.drain())
			return
		}
	}
}

func (b *binder) abandon(decisions []decision) {
	for _, d := range decisions {
		b.s.cache.Forget(d.item.Pod.UID)
		b.s.forgetVolumes(&d)
		b.s.cache.Devices.Forget(d.devices)
		if d.volumesSpan != nil {
			d.volumesSpan.End()
		}
		b.s.takeBack(d)
		b.s.queue.Fail(d.item, true)
		d.span.End()
	}
}

func (b *binder) write(ctx context.Context, decisions []decision) {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	b.s.metrics.binding.Inc()
	defer b.s.metrics.binding.Dec()
	decisions = b.preBind(ctx, decisions)
	items := make([]object.Item, 0, len(decisions))
	written := make([]decision, 0, len(decisions))
	spans := make([]trace.Span, 0, len(decisions))
	for _, d := range decisions {
		item, needed := b.item(d)
		if !needed {
			b.finish(d, nil)
			continue
		}
		bindCtx, span := otel.Tracer("howdah.dev/services/scheduler").Start(d.ctx, "scheduler.bind")
		items, written, spans = append(items, item.Traced(bindCtx)), append(written, d), append(spans, span)
	}
	if len(items) == 0 {
		return
	}
	began := b.s.cfg.Clock.Now()
	results, err := b.s.cfg.Objects.Batch(trace.ContextWithSpan(ctx, spans[0]), items, false)
	took := b.s.cfg.Clock.Since(began)
	outcomes := make([]error, len(written))
	for i := range written {
		outcomes[i] = err
		if i < len(results) {
			outcomes[i] = results[i].Err
		}
		obs.End(spans[i], outcomes[i])
		if written[i].node != "" {
			b.s.profiles.of(written[i].item.Pod).metrics.point(plugin.Bind, codeOf(outcomes[i]), took)
		}
		if outcomes[i] != nil {
			b.s.takeBack(written[i])
		}
	}
	b.evict(ctx, written, outcomes)
	b.unreserve(ctx, refused(written, outcomes)...)
	for i, d := range written {
		b.finish(d, outcomes[i])
	}
}

// item is the write that a decision needs: a binding, or a condition where
// it says something new.
func (b *binder) item(d decision) (object.Item, bool) {
	pod := d.item.Pod
	if d.node != "" {
		return b.pods.PostItem(pod.Namespace, pod.Name, "binding", &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: d.node},
		}), true
	}
	reason := corev1.PodReasonUnschedulable
	if d.failure {
		reason = corev1.PodReasonSchedulerError
	}
	if d.room == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message == d.message && c.Reason == reason
	}) {
		return object.Item{}, false
	}
	status := map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason,
		Message: d.message, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(b.s.cfg.Clock.Now()),
	}}}
	if d.room != nil {
		status["nominatedNodeName"] = orNull(d.room.node)
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil { // plain data always encodes
		return object.Item{}, false
	}
	return b.pods.PatchItem(pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status"), true
}

// finish acts on the outcome of a decision's write.
func (b *binder) finish(d decision, err error) {
	s, pod := b.s, d.item.Pod
	defer obs.End(d.span, err)
	s.attempted(&d, err)
	switch {
	case d.node == "":
		s.queue.FailFor(d.item, d.failure || d.again && !s.queue.Woken(d.item) || err != nil && !apierrors.IsNotFound(err), d.cause, d.blamed())
		if !d.again {
			s.profiles.of(pod).events.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", d.message)
		}
	case err == nil:
		s.queue.Delete(pod.UID)
		s.metrics.bound(d.item, s.cfg.Clock.Now())
		s.profiles.of(pod).events.Eventf(pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, d.node)
	case apierrors.IsNotFound(err):
		s.cache.Forget(pod.UID)
		s.queue.Delete(pod.UID)
	default: // refused, or the outcome is unknown: the API will show it, or it is tried again
		slog.WarnContext(d.ctx, "bind failed", "kind", "Pod", "namespace", pod.Namespace, "name", pod.Name, "node", d.node, "err", err)
		s.cache.Forget(pod.UID)
		s.queue.Fail(d.item, true)
	}
}
