package servicecidr

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// The kinds that this controller and the one of addresses work with.
var (
	Kind = object.Kind[*networkingv1.ServiceCIDR]{
		GVK: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), Resource: "servicecidrs",
		New: func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
	}
	AddressKind = object.Kind[*networkingv1.IPAddress]{
		GVK: networkingv1.SchemeGroupVersion.WithKind("IPAddress"), Resource: "ipaddresses",
		New: func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
	}
)

type ranges struct {
	client *object.Client
	cidrs  *object.Informer[*networkingv1.ServiceCIDR]
	clock  clock.PassiveClock
	queue  *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &ranges{client: env.Client, cidrs: object.InformerFor(env.Informers, Kind), clock: env.Clock}
	c.queue = reconcile.New(reconcile.Config{Name: "servicecidr", Kind: "ServiceCIDR", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.cidrs, func(old, new *networkingv1.ServiceCIDR) {
		if new != nil {
			c.queue.Enqueue(object.KeyOf(new), c.cidrs.Trace(new))
			c.going(c.cidrs.Trace(new)) // another range may have what they wait for
		}
	})
	addresses := object.InformerFor(env.Informers, AddressKind)
	controller.Handle(env, addresses, func(old, new *networkingv1.IPAddress) {
		if old != nil {
			c.going(addresses.Trace(old))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// going looks again at the ranges that are being deleted.
func (c *ranges) going(cause trace.SpanContext) {
	for _, cidr := range c.cidrs.List("") {
		if cidr.DeletionTimestamp != nil {
			c.queue.Enqueue(object.KeyOf(cidr), cause)
		}
	}
}

func (c *ranges) reconcile(ctx context.Context, key string) (time.Duration, error) {
	cidr, ok := c.cidrs.GetKey(key)
	if !ok {
		return 0, nil
	}
	cidr = cidr.DeepCopy()
	var addresses []*networkingv1.IPAddress
	if cidr.DeletionTimestamp != nil { // as of now: one may have been reserved a moment ago
		var err error
		if addresses, _, err = object.For(c.client, AddressKind).List(ctx, "", metav1.ListOptions{}); err != nil {
			return 0, err
		}
	}
	plan := Decide(cidr, c.cidrs.List(""), addresses, c.clock.Now())
	if plan.Changed {
		changed := cidr.DeepCopy()
		changed.Finalizers = plan.Finalizers
		if _, err := object.For(c.client, Kind).Update(ctx, changed); err != nil || len(plan.Finalizers) == 0 {
			return 0, settled(err)
		}
	}
	if plan.Condition != nil {
		if _, err := object.For(c.client, Kind).ApplyStatus(ctx, c.says(cidr, *plan.Condition), fieldManager); err != nil {
			return 0, settled(err)
		}
	}
	return plan.After, nil
}

// fieldManager applies the conditions, and nothing else: other conditions have other managers.
const fieldManager = "service-cidr-controller"

// says is the part of the range that is applied to its status.
func (c *ranges) says(cidr *networkingv1.ServiceCIDR, condition metav1.Condition) *networkingv1.ServiceCIDR {
	part := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: cidr.Name, UID: cidr.UID}}
	part.SetGroupVersionKind(Kind.GVK)
	condition.LastTransitionTime = metav1.NewTime(c.clock.Now())
	part.Status.Conditions = []metav1.Condition{condition}
	return part
}

// settled leaves out what the next event sets right.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
