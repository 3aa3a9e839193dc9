// Package clusterroleaggregation gives the ClusterRoles that aggregate others those others' rules.
package clusterroleaggregation

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Kind is the kind of ClusterRoles.
var Kind = object.Kind[*rbacv1.ClusterRole]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Resource: "clusterroles", New: func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
}

// manager applies the rules, and so owns them; others meet its name in conflicts.
const manager = "clusterrole-aggregation-controller"

// aggregator reconciles ClusterRoles by name.
type aggregator struct {
	client *object.Client
	roles  *object.Informer[*rbacv1.ClusterRole]
	queue  *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &aggregator{client: env.Client, roles: object.InformerFor(env.Informers, Kind)}
	c.queue = reconcile.New(reconcile.Config{
		Name: "clusterroleaggregation", Kind: "ClusterRole", Workers: 1, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	// Aggregating roles are few, and any role may be a part of any of them: all are looked at after each change.
	controller.Handle(env, c.roles, func(old, now *rbacv1.ClusterRole) {
		changed := now
		if changed == nil {
			changed = old
		}
		for _, role := range c.roles.List("") {
			if role.AggregationRule != nil {
				c.queue.Enqueue(role.Name, c.roles.Trace(changed))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func (c *aggregator) reconcile(ctx context.Context, name string) (time.Duration, error) {
	role, ok := c.roles.Get("", name)
	if !ok {
		return 0, nil
	}
	rules, changed, err := plan(role, c.roles.List(""))
	if err != nil || !changed {
		return 0, err
	}
	part := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name, UID: role.UID}, Rules: rules}
	part.SetGroupVersionKind(Kind.GVK)
	if _, err := object.For(c.client, Kind).Apply(ctx, part, manager); err != nil && !gone(err) {
		return 0, fmt.Errorf("write the rules of ClusterRole %s: %w", name, err)
	}
	return 0, nil
}

// gone says that the role is not there any more, or is another of its name.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
