package policystatus

import (
	"context"
	"fmt"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Policy is the kind that the controller follows.
var Policy = object.Kind[*registrationv1.ValidatingAdmissionPolicy]{
	GVK: registrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"), Resource: "validatingadmissionpolicies",
	New: func() *registrationv1.ValidatingAdmissionPolicy { return &registrationv1.ValidatingAdmissionPolicy{} },
}

// manager owns the status, as in Kubernetes.
const manager = "validatingadmissionpolicy-status"

// A new policy waits so long for the schema of a kind that is served, and is looked at so often meanwhile.
const (
	schemaWait = 10 * time.Second
	schemaPoll = time.Second
)

type checks struct {
	client   *object.Client
	clock    clock.PassiveClock
	policies *object.Informer[*registrationv1.ValidatingAdmissionPolicy]
	queue    *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &checks{client: env.Client, clock: env.Clock, policies: object.InformerFor(env.Informers, Policy)}
	c.queue = reconcile.New(reconcile.Config{
		Name: "policystatus", Kind: Policy.GVK.Kind, Workers: 1, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.policies, func(_, new *registrationv1.ValidatingAdmissionPolicy) {
		if new != nil && !checked(new) {
			c.queue.Enqueue(new.Name, c.policies.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// checked reports whether the status tells of the present spec.
func checked(p *registrationv1.ValidatingAdmissionPolicy) bool {
	return p.Status.TypeChecking != nil && p.Status.ObservedGeneration == p.Generation
}

func (c *checks) reconcile(ctx context.Context, name string) (time.Duration, error) {
	p, ok := c.policies.Get("", name)
	if !ok || checked(p) || p.DeletionTimestamp != nil {
		return 0, nil
	}
	kinds := newDocuments(ctx, c.client)
	warnings := Check(p, kinds)
	if kinds.err != nil {
		return 0, kinds.err
	}
	if kinds.missing && c.clock.Since(p.CreationTimestamp.Time) < schemaWait {
		return schemaPoll, nil
	}
	part := &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
		Status: registrationv1.ValidatingAdmissionPolicyStatus{
			ObservedGeneration: p.Generation, TypeChecking: &registrationv1.TypeChecking{ExpressionWarnings: warnings},
		},
	}
	part.SetGroupVersionKind(Policy.GVK)
	if _, err := object.For(c.client, Policy).ApplyStatus(ctx, part, manager); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("write the status of policy %s: %w", name, err)
	}
	return 0, nil
}
