package podautoscaler

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/discovery"
)

var kind = object.Kind[*autoscalingv2.HorizontalPodAutoscaler]{
	GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Resource: "horizontalpodautoscalers", Namespaced: true,
	New: func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} },
}

// reader reads metrics.
type reader interface {
	Read(ctx context.Context, namespace string, pods labels.Selector, m autoscalingv2.MetricSpec) Reading
}

// autoscalers reconciles HorizontalPodAutoscalers.
type autoscalers struct {
	cfg         Config
	client      *object.Client
	autoscalers *object.Informer[*autoscalingv2.HorizontalPodAutoscaler]
	pods        *object.Informer[*corev1.Pod]
	reader      reader
	kinds       *discovery.Kinds
	rivals      *rivals
	events      record.EventRecorder
	clock       clock.PassiveClock
	metrics     *Metrics
	queue       *reconcile.Controller

	mu       sync.Mutex
	memories map[string]remembered
}

// remembered is what is known of one autoscaler, and not of another of its name.
type remembered struct {
	uid types.UID
	Memory
}

// New returns the controller.
func New(env *controller.Env, cfg Config, metrics *Metrics) (controller.Unit, error) {
	kinds := discovery.NewKinds(env.Client, env.Clock)
	reader, err := newMetricsAPIs(env.Client, kinds, env.Clock)
	if err != nil {
		return controller.Unit{}, err
	}
	return build(env, cfg, metrics, kinds, reader), nil
}

func build(env *controller.Env, cfg Config, metrics *Metrics, kinds *discovery.Kinds, reader reader) controller.Unit {
	c := &autoscalers{
		cfg: cfg, client: env.Client, autoscalers: object.InformerFor(env.Informers, kind), pods: env.Pods(), reader: reader, kinds: kinds,
		rivals: newRivals(), events: env.Recorder("horizontal-pod-autoscaler"), clock: env.Clock, metrics: metrics, memories: map[string]remembered{},
	}
	metrics.began()
	c.queue = reconcile.New(reconcile.Config{
		Name: "horizontalpodautoscaler", Kind: kind.GVK.Kind, Workers: cfg.Workers, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock,
	})
	controller.Handle(env, c.autoscalers, c.changed)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// changed has an autoscaler looked at for the first time when a period has passed; from then on it is looked at every period. What is
// written of its status is no reason to.
func (c *autoscalers) changed(old, new *autoscalingv2.HorizontalPodAutoscaler) {
	switch {
	case new == nil:
		c.metrics.add(-1)
		c.queue.Enqueue(object.KeyOf(old), c.autoscalers.Trace(old)) // to forget it
	case old == nil:
		c.metrics.add(1)
		c.queue.EnqueueWithin(object.KeyOf(new), c.autoscalers.Trace(new), c.cfg.Period)
	case old.UID != new.UID || !equality.Semantic.DeepEqual(old.Spec, new.Spec):
		c.queue.EnqueueWithin(object.KeyOf(new), c.autoscalers.Trace(new), c.cfg.Period)
	}
}

// reconcile looks at one autoscaler. What fails is tried again with the next period: an autoscaler must not be looked at more often, for its
// policies and windows count what it does.
func (c *autoscalers) reconcile(ctx context.Context, key string) (time.Duration, error) {
	h, ok := c.autoscalers.GetKey(key)
	if !ok {
		c.forget(key)
		return 0, nil
	}
	begun := c.clock.Now()
	from, to, o := c.look(ctx, key, h)
	c.metrics.looked(from, to, o, c.clock.Since(begun))
	if o.err != nil {
		slog.WarnContext(ctx, "cannot autoscale as asked for", "kind", kind.GVK.Kind, "namespace", h.Namespace, "name", h.Name, "err", o.err)
	}
	return c.cfg.Period, nil
}

func (c *autoscalers) forget(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	c.rivals.forget(namespace, key)
	c.metrics.forget(namespace, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, key)
}

// look reads the target and the metrics, and does what they ask for. It returns from how many replicas to how many the target was scaled.
func (c *autoscalers) look(ctx context.Context, key string, h *autoscalingv2.HorizontalPodAutoscaler) (from, to int32, o outcome) {
	ref := h.Spec.ScaleTargetRef
	t, own, err := readTarget(ctx, c.client, c.kinds, h.Namespace, ref)
	if err != nil {
		c.events.Event(h, corev1.EventTypeWarning, "FailedGetScale", err.Error())
		o = outcome{fmt.Errorf("read the scale of %s %s: %w", ref.Kind, ref.Name, err), own}
		if err := c.write(ctx, h, unable(h.Status, err, c.clock.Now())); err != nil {
			slog.WarnContext(ctx, "status is not written", "kind", kind.GVK.Kind, "namespace", h.Namespace, "name", h.Name, "err", err)
		}
		return 0, 0, o
	}
	seen, took := c.observe(ctx, key, h, t)
	plan := Decide(h, seen, c.memory(key, h.UID), c.cfg, c.clock.Now())
	for i, v := range plan.Judged {
		c.metrics.judged(v, seen.Wanted, took[i])
	}
	from, to, o = seen.Wanted, seen.Wanted, outcome{plan.Failure, plan.Spec}
	if plan.Scale {
		err := t.set(ctx, plan.Replicas)
		plan = plan.scaled(h, c.cfg, err, c.clock.Now())
		if err != nil {
			o = outcome{err: fmt.Errorf("scale %s %s to %d: %w", ref.Kind, ref.Name, plan.Replicas, err)}
		} else {
			to = plan.Replicas
		}
	}
	c.remember(key, h.UID, plan.Memory)
	for _, e := range plan.Events {
		c.events.Event(h, e.Type, e.Reason, e.Message)
	}
	c.metrics.wants(h, plan.Status.DesiredReplicas)
	if err := c.write(ctx, h, plan.Status); err != nil {
		o = outcome{err: err}
	}
	return from, to, o
}

// observe reads what the plan needs, and measures how long each metric took.
func (c *autoscalers) observe(ctx context.Context, key string, h *autoscalingv2.HorizontalPodAutoscaler, t target) (Observed, []time.Duration) {
	seen := Observed{Wanted: t.scale.Spec.Replicas, Replicas: t.scale.Status.Replicas}
	if !Asks(h, seen.Wanted, c.cfg) {
		return seen, nil
	}
	var selector labels.Selector
	selector, seen.Pods, seen.Selector = c.rivals.selected(h.Namespace, key, t.scale.Status.Selector, c.pods.List(h.Namespace))
	if seen.Selector != nil {
		return seen, nil
	}
	var took []time.Duration
	for _, m := range h.Spec.Metrics {
		begun := c.clock.Now()
		seen.Readings = append(seen.Readings, c.reader.Read(ctx, h.Namespace, selector, m))
		took = append(took, c.clock.Since(begun))
	}
	return seen, took
}

func (c *autoscalers) memory(key string, uid types.UID) Memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := c.memories[key]; ok && m.uid == uid {
		return m.Memory
	}
	return Memory{}
}

func (c *autoscalers) remember(key string, uid types.UID, m Memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memories[key] = remembered{uid, m}
}

// write stores a status that says anything new.
func (c *autoscalers) write(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler, status autoscalingv2.HorizontalPodAutoscalerStatus) error {
	if same(&h.Status, &status) {
		return nil
	}
	h = h.DeepCopy()
	h.Status = status
	if _, err := object.For(c.client, kind).UpdateStatus(ctx, h); err != nil {
		c.events.Event(h, corev1.EventTypeWarning, "FailedUpdateStatus", err.Error())
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}
