// Package serviceaccount gives every namespace its "default" ServiceAccount.
package serviceaccount

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// accountName is the account of pods that name none.
const accountName = "default"

// serviceAccounts reconciles namespaces.
type serviceAccounts struct {
	client     *object.Client
	namespaces *object.Informer[*corev1.Namespace]
	accounts   *object.Informer[*corev1.ServiceAccount]
	queue      *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &serviceAccounts{
		client:     env.Client,
		namespaces: object.InformerFor(env.Informers, object.Namespace),
		accounts:   object.InformerFor(env.Informers, object.ServiceAccount),
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "serviceaccount", Kind: "Namespace", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.namespaces, func(_, new *corev1.Namespace) {
		if new != nil {
			c.queue.Enqueue(new.Name, c.namespaces.Trace(new))
		}
	})
	controller.Handle(env, c.accounts, func(old, new *corev1.ServiceAccount) {
		if new == nil && old.Name == accountName {
			c.queue.Enqueue(old.Namespace, c.accounts.Trace(old))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// missing is the plan: an active namespace without the account needs one.
func missing(ns *corev1.Namespace, exists bool) bool {
	return !exists && ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceTerminating
}

func (c *serviceAccounts) reconcile(ctx context.Context, name string) (time.Duration, error) {
	ns, ok := c.namespaces.Get("", name)
	if !ok {
		return 0, nil
	}
	if _, exists := c.accounts.Get(name, accountName); !missing(ns, exists) {
		return 0, nil
	}
	_, err := object.For(c.client, object.ServiceAccount).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: accountName},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, fmt.Errorf("create service account: %w", err)
	}
	return 0, nil
}
