package status

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
	"howdah.dev/services/ingress/internal/custom"
	"howdah.dev/services/ingress/internal/route"
)

// maxAncestors is how many the status of a policy may have.
const maxAncestors = 16

// GatewaysConfig is what a writer of the status of the Gateway API's objects needs.
type GatewaysConfig struct {
	Classes      *custom.Kind[*gatewayv1.GatewayClass]
	Gateways     *custom.Kind[*gatewayv1.Gateway]
	ListenerSets *custom.Kind[*gatewayv1.ListenerSet]
	HTTPRoutes   *custom.Kind[*gatewayv1.HTTPRoute]
	GRPCRoutes   *custom.Kind[*gatewayv1.GRPCRoute]
	TLSRoutes    *custom.Kind[*gatewayv1.TLSRoute]
	Policies     *custom.Kind[*gatewayv1.BackendTLSPolicy]
	// Controller is who we are in the status of routes.
	Controller string
	Metrics    *reconcile.Metrics
	Clock      clock.WithTicker
}

// Gateways keeps the status of the objects of the Gateway API.
type Gateways struct {
	cfg    GatewaysConfig
	wanted atomic.Pointer[route.Statuses]
	kinds  []kind
}

// kind is one whose status is kept.
type kind interface {
	// changed looks at all objects again.
	changed()
	// touched looks at one again.
	touched(o object.Object)
	run(ctx context.Context) error
}

// NewGateways returns a writer, which writes in Run.
func NewGateways(cfg GatewaysConfig) *Gateways {
	g := &Gateways{cfg: cfg}
	g.wanted.Store(&route.Statuses{})
	g.kinds = []kind{
		written(g, "GatewayClass", cfg.Classes, func(o *gatewayv1.GatewayClass, s *route.Statuses) (*gatewayv1.GatewayClass, bool) {
			want, ok := s.Classes[o.Name]
			return replaced(o, ok, &o.Status, &want, &want.Conditions, o.Status.Conditions, cfg.Clock.Now(), func(o *gatewayv1.GatewayClass) { o.Status = want })
		}),
		written(g, "Gateway", cfg.Gateways, func(o *gatewayv1.Gateway, s *route.Statuses) (*gatewayv1.Gateway, bool) {
			want, ok := s.Gateways[object.KeyOf(o)]
			want.Listeners = append([]gatewayv1.ListenerStatus{}, want.Listeners...)
			for n := range want.Listeners {
				l := &want.Listeners[n]
				l.Conditions = since(before(o.Status.Listeners, l.Name, func(h *gatewayv1.ListenerStatus) (gatewayv1.SectionName, []metav1.Condition) {
					return h.Name, h.Conditions
				}), l.Conditions, cfg.Clock.Now())
			}
			return replaced(o, ok, &o.Status, &want, &want.Conditions, o.Status.Conditions, cfg.Clock.Now(), func(o *gatewayv1.Gateway) { o.Status = want })
		}),
		written(g, "ListenerSet", cfg.ListenerSets, func(o *gatewayv1.ListenerSet, s *route.Statuses) (*gatewayv1.ListenerSet, bool) {
			want, ok := s.ListenerSets[object.KeyOf(o)]
			want.Listeners = append([]gatewayv1.ListenerEntryStatus{}, want.Listeners...)
			for n := range want.Listeners {
				l := &want.Listeners[n]
				l.Conditions = since(before(o.Status.Listeners, l.Name, func(h *gatewayv1.ListenerEntryStatus) (gatewayv1.SectionName, []metav1.Condition) {
					return h.Name, h.Conditions
				}), l.Conditions, cfg.Clock.Now())
			}
			return replaced(o, ok, &o.Status, &want, &want.Conditions, o.Status.Conditions, cfg.Clock.Now(), func(o *gatewayv1.ListenerSet) { o.Status = want })
		}),
		written(g, "HTTPRoute", cfg.HTTPRoutes, func(o *gatewayv1.HTTPRoute, s *route.Statuses) (*gatewayv1.HTTPRoute, bool) {
			return parentsOf(g, o, &o.Status.RouteStatus, s.Routes["HTTPRoute"], func(o *gatewayv1.HTTPRoute) *gatewayv1.RouteStatus { return &o.Status.RouteStatus })
		}),
		written(g, "GRPCRoute", cfg.GRPCRoutes, func(o *gatewayv1.GRPCRoute, s *route.Statuses) (*gatewayv1.GRPCRoute, bool) {
			return parentsOf(g, o, &o.Status.RouteStatus, s.Routes["GRPCRoute"], func(o *gatewayv1.GRPCRoute) *gatewayv1.RouteStatus { return &o.Status.RouteStatus })
		}),
		written(g, "TLSRoute", cfg.TLSRoutes, func(o *gatewayv1.TLSRoute, s *route.Statuses) (*gatewayv1.TLSRoute, bool) {
			return parentsOf(g, o, &o.Status.RouteStatus, s.Routes["TLSRoute"], func(o *gatewayv1.TLSRoute) *gatewayv1.RouteStatus { return &o.Status.RouteStatus })
		}),
		written(g, "BackendTLSPolicy", cfg.Policies, g.ancestors),
	}
	return g
}

// Set says what the status of every object is to be.
func (g *Gateways) Set(s *route.Statuses) {
	g.wanted.Store(s)
	for _, k := range g.kinds {
		k.changed()
	}
}

// Touched looks at an object again that has changed.
func (g *Gateways) Touched(o object.Object) {
	for _, k := range g.kinds {
		k.touched(o)
	}
}

// Run writes until ctx ends. It may run again afterwards.
func (g *Gateways) Run(ctx context.Context) error {
	var parts []task.Func
	for _, k := range g.kinds {
		parts = append(parts, k.run)
	}
	return task.Run(ctx, parts...)
}

// writer keeps the status of one kind.
type writer[T object.Object] struct {
	of      *Gateways
	name    string
	objects *custom.Kind[T]
	// plan returns an object as it is to be, and whether it is otherwise.
	plan    func(T, *route.Statuses) (T, bool)
	current atomic.Pointer[reconcile.Controller] // nil while another process leads
}

func written[T object.Object](g *Gateways, name string, objects *custom.Kind[T], plan func(T, *route.Statuses) (T, bool)) kind {
	return &writer[T]{of: g, name: name, objects: objects, plan: plan}
}

func (w *writer[T]) changed() {
	c := w.current.Load()
	if c == nil {
		return
	}
	s := w.of.wanted.Load()
	for _, o := range w.objects.List() {
		if _, change := w.plan(o, s); change {
			c.Enqueue(object.KeyOf(o), w.objects.Trace(o))
		}
	}
}

func (w *writer[T]) touched(o object.Object) {
	if one, ok := o.(T); ok {
		if c := w.current.Load(); c != nil {
			c.Enqueue(object.KeyOf(one), w.objects.Trace(one))
		}
	}
}

func (w *writer[T]) run(ctx context.Context) error {
	c := reconcile.New(reconcile.Config{
		Name: "gateway-status", Kind: w.name, Workers: 1, Reconcile: w.reconcile, Metrics: w.of.cfg.Metrics, Clock: w.of.cfg.Clock,
	})
	w.current.Store(c)
	defer w.current.Store(nil)
	for _, o := range w.objects.List() {
		c.Enqueue(object.KeyOf(o), trace.SpanContext{})
	}
	return c.Run(ctx)
}

func (w *writer[T]) reconcile(ctx context.Context, key string) (time.Duration, error) {
	o, ok := w.objects.GetKey(key)
	if !ok || o.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	next, change := w.plan(o, w.of.wanted.Load())
	if !change {
		return 0, nil
	}
	_, err := w.objects.Resource().UpdateStatus(ctx, next)
	if apierrors.IsNotFound(err) { // it, or its definition
		return 0, nil
	}
	return 0, err
}

// replaced returns an object with the status that is wanted, where it has another.
func replaced[T object.Object, S any](o T, ours bool, have, want *S, conditions *[]metav1.Condition, had []metav1.Condition, now time.Time, set func(T)) (T, bool) {
	*conditions = since(had, *conditions, now)
	if !ours || equality.Semantic.DeepEqual(have, want) {
		return o, false
	}
	next := o.DeepCopyObject().(T)
	set(next)
	return next, true
}

// since gives conditions the times since when they are so.
func since(had, want []metav1.Condition, now time.Time) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(want))
	for _, c := range want {
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		for _, h := range had {
			if h.Type == c.Type && h.Status == c.Status {
				c.LastTransitionTime = h.LastTransitionTime
			}
		}
		out = append(out, c)
	}
	return out
}

// before returns the conditions that a listener of a name has.
func before[L any](all []L, name gatewayv1.SectionName, of func(*L) (gatewayv1.SectionName, []metav1.Condition)) []metav1.Condition {
	for n := range all {
		if have, conditions := of(&all[n]); have == name {
			return conditions
		}
	}
	return nil
}

// parentsOf plans the status of a route: the parents of other controllers stay.
func parentsOf[T object.Object](g *Gateways, o T, have *gatewayv1.RouteStatus, wanted map[string][]gatewayv1.RouteParentStatus, of func(T) *gatewayv1.RouteStatus) (T, bool) {
	others, ours := []gatewayv1.RouteParentStatus{}, []gatewayv1.RouteParentStatus{}
	for _, p := range have.Parents {
		if string(p.ControllerName) == g.cfg.Controller {
			ours = append(ours, p)
		} else {
			others = append(others, p)
		}
	}
	want := make([]gatewayv1.RouteParentStatus, 0, len(wanted[object.KeyOf(o)]))
	for _, p := range wanted[object.KeyOf(o)] {
		var had []metav1.Condition
		for _, h := range ours {
			if equality.Semantic.DeepEqual(h.ParentRef, p.ParentRef) {
				had = h.Conditions
			}
		}
		p.Conditions = since(had, p.Conditions, g.cfg.Clock.Now())
		want = append(want, p)
	}
	if equality.Semantic.DeepEqual(ours, want) {
		return o, false
	}
	next := o.DeepCopyObject().(T)
	of(next).Parents = append(others, want...)
	return next, true
}

// ancestors plans the status of a policy: the ancestors of other controllers stay.
func (g *Gateways) ancestors(o *gatewayv1.BackendTLSPolicy, s *route.Statuses) (*gatewayv1.BackendTLSPolicy, bool) {
	others, ours := []gatewayv1.PolicyAncestorStatus{}, []gatewayv1.PolicyAncestorStatus{}
	for _, a := range o.Status.Ancestors {
		if string(a.ControllerName) == g.cfg.Controller {
			ours = append(ours, a)
		} else {
			others = append(others, a)
		}
	}
	want := []gatewayv1.PolicyAncestorStatus{}
	for _, a := range s.Policies[object.KeyOf(o)] {
		if len(others)+len(want) == maxAncestors {
			break
		}
		var had []metav1.Condition
		for _, h := range ours {
			if equality.Semantic.DeepEqual(h.AncestorRef, a.AncestorRef) {
				had = h.Conditions
			}
		}
		a.Conditions = since(had, a.Conditions, g.cfg.Clock.Now())
		want = append(want, a)
	}
	if equality.Semantic.DeepEqual(ours, want) {
		return o, false
	}
	next := o.DeepCopy()
	next.Status.Ancestors = append(others, want...)
	return next, true
}
