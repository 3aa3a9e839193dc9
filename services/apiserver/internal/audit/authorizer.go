package audit

import (
	"context"

	"howdah.dev/services/apiserver/internal/authz"
)

// Annotations of a decision, as Kubernetes names them.
const (
	decisionKey = "authorization.k8s.io/decision"
	reasonKey   = "authorization.k8s.io/reason"
)

// Authorizer tells the entry of a request how it was decided on. Only the first decision of a request is told: what else is
// asked on its behalf is not about the request itself.
type Authorizer struct{ authz.Authorizer }

// Authorize implements authz.Authorizer.
func (a Authorizer) Authorize(ctx context.Context, attributes *authz.Attributes) (authz.Decision, string, error) {
	e := From(ctx)
	if e == nil {
		return a.Authorizer.Authorize(ctx, attributes)
	}
	explain := *attributes
	explain.Explain = true
	end := e.Timing(Authorization)
	decision, reason, err := a.Authorizer.Authorize(ctx, &explain)
	end()
	word := "forbid"
	if decision == authz.Allow {
		word = "allow"
	}
	e.Annotate(decisionKey, word)
	e.Annotate(reasonKey, reason)
	return decision, reason, err
}

// Judge asks the authorizer once more about a request that was answered elsewhere, to tell of its decision.
func (e *Entry) Judge(ctx context.Context, authorizer authz.Authorizer, attributes *authz.Attributes) {
	if e == nil {
		return
	}
	slot := &Slot{}
	slot.Put(e)
	_, _, _ = Authorizer{authorizer}.Authorize(WithSlot(ctx, slot), attributes)
}

// Allowed tells that the request is allowed without a decision.
func (e *Entry) Allowed() {
	e.Annotate(decisionKey, "allow")
	e.Annotate(reasonKey, "")
}
