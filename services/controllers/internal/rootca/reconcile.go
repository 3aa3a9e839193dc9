// Package rootca puts the cluster's certificate authorities into every
// namespace, where pods find it beside their token.
package rootca

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

const (
	mapName        = "kube-root-ca.crt"
	mapKey         = "ca.crt"
	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// publisher reconciles namespaces.
type publisher struct {
	client     *object.Client
	ca         controller.Authorities
	namespaces *object.Informer[*corev1.Namespace]
	maps       *object.Informer[*corev1.ConfigMap]
	queue      *reconcile.Controller
	metrics    *Metrics
}

// New returns the controller that publishes ca. metrics may be nil.
func New(env *controller.Env, ca controller.Authorities, metrics *Metrics) controller.Unit {
	c := &publisher{
		client: env.Client, ca: ca, metrics: metrics,
		namespaces: object.InformerFor(env.Informers, object.Namespace),
		// All namespaces' maps of one name: not every map of the cluster.
		maps: object.InformerFor(env.Informers, object.ConfigMap, object.Option{FieldSelector: "metadata.name=" + mapName}),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "rootca", Kind: "Namespace", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.namespaces, func(_, new *corev1.Namespace) {
		if new != nil {
			c.queue.Enqueue(new.Name, c.namespaces.Trace(new))
		}
	})
	controller.Handle(env, c.maps, func(old, new *corev1.ConfigMap) {
		m := new
		if m == nil {
			m = old
		}
		c.queue.Enqueue(m.Namespace, c.maps.Trace(m))
	})
	replaced := func(ctx context.Context) error {
		return ca.Follow(ctx, func() {
			for _, ns := range c.namespaces.List("") {
				c.queue.Enqueue(ns.Name, trace.SpanContext{})
			}
		})
	}
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{replaced}}
}

// plan returns the map that the namespace should have, or nil where current is right.
func plan(ns *corev1.Namespace, current *corev1.ConfigMap, ca string) *corev1.ConfigMap {
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	data := map[string]string{mapKey: ca}
	if current == nil {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: mapName, Annotations: map[string]string{descriptionKey: description}},
			Data:       data,
		}
	}
	if len(current.Data) == 1 && current.Data[mapKey] == ca && current.Annotations[descriptionKey] != "" {
		return nil
	}
	want := current.DeepCopy()
	want.Data = data
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[descriptionKey] = description
	return want
}

func (c *publisher) reconcile(ctx context.Context, name string) (time.Duration, error) {
	start := time.Now()
	err := c.publish(ctx, name)
	c.metrics.synced(time.Since(start), err)
	return 0, err
}

// publish writes a namespace's map where it is not right.
func (c *publisher) publish(ctx context.Context, name string) error {
	ns, ok := c.namespaces.Get("", name)
	if !ok {
		return nil
	}
	current, exists := c.maps.Get(name, mapName)
	if !exists {
		current = nil
	}
	want := plan(ns, current, string(c.ca.Now().PEM))
	if want == nil {
		return nil
	}
	maps, err := object.For(c.client, object.ConfigMap), error(nil)
	if exists {
		_, err = maps.Update(ctx, want)
	} else {
		_, err = maps.Create(ctx, want)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("write root CA: %w", err)
	}
	return nil
}
