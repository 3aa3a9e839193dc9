package bootstraptoken

import (
	"context"
	"fmt"
	"maps"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// infoName is the ConfigMap of kube-public that is signed; its key is the only one of the queue.
const infoName = "cluster-info"

type signer struct {
	client  *object.Client
	maps    *object.Informer[*corev1.ConfigMap]
	secrets *object.Informer[*corev1.Secret]
	clock   clock.PassiveClock
}

// NewSigner returns the controller that signs cluster-info. Who installs the cluster makes the ConfigMap.
func NewSigner(env *controller.Env) controller.Unit {
	c := &signer{
		client: env.Client, clock: env.Clock, secrets: secretsOf(env),
		maps: object.InformerFor(env.Informers, object.ConfigMap, object.Option{FieldSelector: "metadata.name=" + infoName}),
	}
	queue := reconcile.New(reconcile.Config{Name: "bootstrapsigner", Kind: "ConfigMap", Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	look := func(cause trace.SpanContext) { queue.Enqueue(object.Key(metav1.NamespacePublic, infoName), cause) }
	controller.Handle(env, c.maps, func(_, new *corev1.ConfigMap) {
		if new != nil && new.Namespace == metav1.NamespacePublic {
			look(c.maps.Trace(new))
		}
	})
	controller.Handle(env, c.secrets, func(old, new *corev1.Secret) {
		if new == nil {
			new = old
		}
		if new.Namespace == metav1.NamespaceSystem {
			look(c.secrets.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// secretsOf is the informer of all bootstrap tokens.
func secretsOf(env *controller.Env) *object.Informer[*corev1.Secret] {
	return object.InformerFor(env.Informers, object.Secret, object.Option{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
}

func (c *signer) reconcile(ctx context.Context, key string) (time.Duration, error) {
	info, ok := c.maps.GetKey(key)
	if !ok || info.DeletionTimestamp != nil {
		return 0, nil
	}
	now := c.clock.Now()
	data, next := Signed(info.Data, c.secrets.List(metav1.NamespaceSystem), now)
	if !maps.Equal(data, info.Data) {
		info = info.DeepCopy()
		info.Data = data
		if _, err := object.For(c.client, object.ConfigMap).Update(ctx, info); err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("sign ConfigMap %s: %w", key, err)
		}
	}
	if next.IsZero() {
		return 0, nil
	}
	return next.Sub(now), nil
}
