package bootstraptoken

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

type cleaner struct {
	client  *object.Client
	secrets *object.Informer[*corev1.Secret]
	clock   clock.PassiveClock
}

// NewCleaner returns the controller that removes tokens that have expired.
func NewCleaner(env *controller.Env) controller.Unit {
	c := &cleaner{client: env.Client, clock: env.Clock, secrets: secretsOf(env)}
	queue := reconcile.New(reconcile.Config{Name: "tokencleaner", Kind: "Secret", Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.secrets, func(_, new *corev1.Secret) {
		if new == nil || new.Namespace != metav1.NamespaceSystem {
			return
		}
		if _, ever := expires(new); ever {
			queue.Enqueue(object.KeyOf(new), c.secrets.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// reconcile removes only the very version of the Secret that has expired: its time may have been prolonged a moment ago.
func (c *cleaner) reconcile(ctx context.Context, key string) (time.Duration, error) {
	secret, ok := c.secrets.GetKey(key)
	if !ok || secret.DeletionTimestamp != nil {
		return 0, nil
	}
	at, ever := expires(secret)
	if !ever {
		return 0, nil
	}
	if rest := at.Sub(c.clock.Now()); rest > 0 {
		return rest, nil
	}
	err := object.For(c.client, object.Secret).Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: object.AsSeen(secret),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("remove bootstrap token %s: %w", key, err)
	}
	return 0, nil
}
