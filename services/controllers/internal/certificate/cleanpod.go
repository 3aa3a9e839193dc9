package certificate

import (
	"context"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// keepPod is how long a pod's request is kept, however it has ended: the node that made it has read the answer by then.
const keepPod = 15 * time.Minute

type podCleaning struct {
	client   *object.Client
	requests *object.Informer[*certificatesv1beta1.PodCertificateRequest]
	clock    clock.Clock
}

// NewPodCleaning returns the controller that removes old requests of pods.
func NewPodCleaning(env *controller.Env) controller.Unit {
	c := &podCleaning{env.Client, object.InformerFor(env.Informers, object.PodCertificateRequest), env.Clock}
	queue := reconcile.New(reconcile.Config{Name: "podcertificatecleaner", Kind: "PodCertificateRequest", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.requests, func(old, new *certificatesv1beta1.PodCertificateRequest) {
		if old == nil && new != nil {
			queue.Enqueue(object.KeyOf(new), c.requests.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

func (c *podCleaning) reconcile(ctx context.Context, key string) (time.Duration, error) {
	r, ok := c.requests.GetKey(key)
	if !ok || r.DeletionTimestamp != nil {
		return 0, nil
	}
	if left := keepPod - c.clock.Since(r.CreationTimestamp.Time); left > 0 {
		return left, nil
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}}
	if err := object.For(c.client, object.PodCertificateRequest).Delete(ctx, r.Namespace, r.Name, options); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("remove %s: %w", key, err)
	}
	return 0, nil
}
