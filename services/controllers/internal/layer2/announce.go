package layer2

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/servicelb"
)

// bySlicesService is the index of EndpointSlices by the key of their service.
const bySlicesService = "slices by service of a load balancer"

type announcer struct {
	client   *object.Client
	events   record.EventRecorder
	services *object.Informer[*corev1.Service]
	nodes    *object.Informer[*corev1.Node]
	slices   *object.Informer[*discoveryv1.EndpointSlice]
	queue    *reconcile.Controller
}

// NewAnnouncer returns the controller that says which node answers for each load balancer's address.
func NewAnnouncer(env *controller.Env) controller.Unit {
	c := &announcer{
		client: env.Client, events: env.Recorder("load-balancer-announcer"),
		services: object.InformerFor(env.Informers, object.Service), nodes: object.InformerFor(env.Informers, object.Node),
		slices: object.InformerFor(env.Informers, object.EndpointSlice, object.Option{Indexers: cache.Indexers{bySlicesService: func(o any) ([]string, error) {
			return []string{serviceOf(o.(*discoveryv1.EndpointSlice))}, nil
		}}}),
	}
	c.queue = reconcile.New(reconcile.Config{Name: "loadbalancerannouncer", Kind: "Service", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.services, func(_, new *corev1.Service) {
		if new != nil && (servicelb.Wants(new) || new.Annotations[object.LoadBalancerNodeAnnotation] != "") {
			c.queue.Enqueue(object.KeyOf(new), c.services.Trace(new))
		}
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if old != nil && new != nil && usable(old) == usable(new) {
			return
		}
		for _, s := range c.services.List("") {
			if servicelb.Wants(s) {
				c.queue.Enqueue(object.KeyOf(s), trace.SpanContext{})
			}
		}
	})
	controller.Handle(env, c.slices, func(old, new *discoveryv1.EndpointSlice) {
		slice := new
		if slice == nil {
			slice = old
		}
		key := serviceOf(slice)
		if s, ok := c.services.GetKey(key); ok && servicelb.Wants(s) && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			c.queue.Enqueue(key, c.slices.Trace(slice))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func serviceOf(slice *discoveryv1.EndpointSlice) string {
	return object.Key(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
}

func usable(n *corev1.Node) bool { return servicelb.Eligible(n) && ready(n) }

// reconcile writes the name of the node into the Service. Nobody answers for a Service that has no address, or is about to have none.
func (c *announcer) reconcile(ctx context.Context, key string) (time.Duration, error) {
	s, ok := c.services.GetKey(key)
	if !ok {
		return 0, nil
	}
	want := ""
	if servicelb.Wants(s) && s.DeletionTimestamp == nil && len(s.Status.LoadBalancer.Ingress) > 0 {
		var nodes []*corev1.Node
		for _, n := range c.nodes.List("") {
			if servicelb.Eligible(n) {
				nodes = append(nodes, n)
			}
		}
		want = Announcer(s, nodes, c.slices.ByIndex(bySlicesService, key))
	}
	if s.Annotations[object.LoadBalancerNodeAnnotation] == want {
		return 0, nil
	}
	var value any // null removes it
	if want != "" {
		value = want
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.UID, "resourceVersion": s.ResourceVersion, "annotations": map[string]any{object.LoadBalancerNodeAnnotation: value},
	}})
	if err != nil {
		return 0, err
	}
	if _, err := object.For(c.client, object.Service).Patch(ctx, s.Namespace, s.Name, types.MergePatchType, patch, ""); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("name the node of service %s: %w", key, err)
	}
	switch {
	case want != "":
		c.events.Eventf(s, corev1.EventTypeNormal, "NodeAssigned", "announcing from node %q", want)
	case s.DeletionTimestamp == nil && servicelb.Wants(s):
		c.events.Event(s, corev1.EventTypeWarning, "NodeNotAssigned", "no node can answer for the load balancer's address")
	}
	return 0, nil
}
