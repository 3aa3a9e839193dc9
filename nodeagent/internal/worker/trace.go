package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/cni"
)

// podTrace is the span of a pod's start, which continues the trace of the
// change that bound the pod to this node, and ends when the pod is ready.
type podTrace struct {
	ctx   context.Context
	span  trace.Span
	pod   *corev1.Pod
	clock clock.PassiveClock
	ready map[string]time.Time // when each container with a readiness probe started
	began time.Time

	stop    trace.Span // of the pod's end, once it has begun
	stopCtx context.Context
}

func newPodTrace(parent trace.SpanContext, p *corev1.Pod, clk clock.PassiveClock) podTrace {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
	if !parent.IsValid() {
		ctx = obs.Untraced(ctx)
	}
	attributes := append(obs.ObjectAttributes("Pod", p), attribute.String("k8s.node.name", p.Spec.NodeName))
	ctx, span := otel.Tracer("nodeagent").Start(ctx, "nodeagent.pod start", trace.WithAttributes(attributes...))
	return podTrace{ctx: ctx, span: span, pod: p, clock: clk, ready: map[string]time.Time{}, began: clk.Now()}
}

// drop forgets the span: the pod was started before.
func (t *podTrace) drop() {
	t.span = nil
	t.ctx = obs.Untraced(context.Background())
}

func (t *podTrace) start(name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer("nodeagent").Start(t.ctx, name, trace.WithAttributes(append(obs.ObjectAttributes("Pod", t.pod), attributes...)...))
}

func (t *podTrace) startContainer(name, container string) (context.Context, trace.Span) {
	return t.start(name, attribute.String("k8s.container.name", container))
}

// networked makes the span of the sandbox's network, whose times its plugin has left. ctx is that of the sandbox's span.
func (t *podTrace) networked(ctx context.Context, sandbox string, taken func(string) (cni.Added, bool)) {
	added, ok := taken(sandbox)
	if !ok {
		return // the node's own network
	}
	addresses := make([]string, len(added.Addresses))
	for i, a := range added.Addresses {
		addresses[i] = a.String()
	}
	_, span := otel.Tracer("nodeagent").Start(ctx, "cni", trace.WithTimestamp(added.Began),
		trace.WithAttributes(append(obs.ObjectAttributes("Pod", t.pod),
			attribute.String("cni.sandbox.id", sandbox), attribute.StringSlice("cni.addresses", addresses))...))
	span.End(trace.WithTimestamp(added.Ended))
}

// started notes when a container began to run.
func (t *podTrace) started(c *corev1.Container, _ string) {
	if t.span != nil && c.ReadinessProbe != nil {
		t.ready[c.Name] = t.clock.Now()
	}
}

// status ends the spans of what has become ready.
func (t *podTrace) status(s *corev1.PodStatus) {
	if t.span == nil {
		return
	}
	for _, c := range s.ContainerStatuses {
		if began, ok := t.ready[c.Name]; ok && c.Ready {
			_, span := otel.Tracer("nodeagent").Start(t.ctx, "probe ready", trace.WithTimestamp(began),
				trace.WithAttributes(append(obs.ObjectAttributes("Pod", t.pod), attribute.String("k8s.container.name", c.Name))...))
			span.End(trace.WithTimestamp(t.clock.Now()))
			delete(t.ready, c.Name)
		}
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady && (c.Status == corev1.ConditionTrue || c.Reason == "PodCompleted") {
			t.end()
		}
	}
}

// end ends the span. Later statuses still belong to its trace.
func (t *podTrace) end() {
	if t.span != nil {
		t.span.End()
		t.span = nil
	}
}

// traceAge is how long after a pod's start its writes belong to that trace.
const traceAge = time.Minute

// context is that of a status write: in the trace of the start while that is
// young, later in none.
func (t *podTrace) context() context.Context {
	if t.span == nil && t.clock.Since(t.began) > traceAge {
		return obs.Untraced(context.Background())
	}
	return t.ctx
}

// stopping returns the context of the pod's end, in the trace of the change
// that ended it; its span begins with the first call.
func (t *podTrace) stopping(change trace.SpanContext) context.Context {
	if t.stop != nil {
		return t.stopCtx
	}
	t.end()
	ctx := obs.Untraced(context.Background())
	if change.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(context.Background(), change)
	}
	t.stopCtx, t.stop = otel.Tracer("nodeagent").Start(ctx, "nodeagent.pod stop", trace.WithAttributes(obs.ObjectAttributes("Pod", t.pod)...))
	return t.stopCtx
}

// leaving starts the span of the wait for the pod's services.
func (t *podTrace) leaving() (context.Context, trace.Span) {
	ctx := t.stopCtx
	if ctx == nil {
		ctx = obs.Untraced(context.Background())
	}
	return otel.Tracer("nodeagent").Start(ctx, "leave services", trace.WithAttributes(obs.ObjectAttributes("Pod", t.pod)...))
}

// stopped ends the span of the pod's end.
func (t *podTrace) stopped() {
	if t.stop != nil {
		t.stop.End()
	}
}

// join returns a context that ends with ctx and is in the trace of spanCtx.
func join(ctx, spanCtx context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(spanCtx))
}
