package rbac

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Source gives the index of the newest roles and bindings that are known.
type Source interface{ Index() *Index }

// Authorizer decides by roles and bindings. It allows or has no opinion.
type Authorizer struct {
	Source Source
	// Ready is closed when the cluster's own roles stand. Until then, what is not allowed waits for it, for 5 s at most: the first
	// start of a cluster refuses nobody who is about to be allowed. nil does not wait.
	Ready <-chan struct{}
}

// readyWait is how long a request waits for the cluster's own roles.
const readyWait = 5 * time.Second

// Authorize implements authz.Authorizer.
func (r Authorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	decision, reason := r.decide(a)
	if decision == authz.Allow || !r.wait(ctx) {
		return decision, reason, nil
	}
	decision, reason = r.decide(a)
	return decision, reason, nil
}

// wait reports whether it waited.
func (r Authorizer) wait(ctx context.Context) bool {
	if r.Ready == nil {
		return false
	}
	select {
	case <-r.Ready:
		return false
	default:
	}
	timer := time.NewTimer(readyWait)
	defer timer.Stop()
	select {
	case <-r.Ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

func (r Authorizer) decide(a *authz.Attributes) (authz.Decision, string) {
	var allowed *grant
	var missing []error
	r.Source.Index().visit(a.User, a.Namespace, func(g *grant) bool {
		if g.missing != nil {
			missing = append(missing, g.missing)
			return true
		}
		for i := range g.rules {
			if allows(&g.rules[i], a) {
				allowed = g
				return false
			}
		}
		return true
	})
	if allowed != nil {
		return authz.Allow, lazyReason(a, allowed)
	}
	if len(missing) > 0 {
		return authz.NoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing))
	}
	return authz.NoOpinion, ""
}

// lazyReason says why something is allowed, where somebody asks for it (a review): the text costs more than the decision.
func lazyReason(a *authz.Attributes, g *grant) string {
	if !a.Explain {
		return ""
	}
	return fmt.Sprintf("RBAC: allowed by %s of %s %q to %s", g.binding, g.ref.Kind, g.ref.Name, g.subjectOf(a.User))
}

// RulesFor implements authz.Lister.
func (r Authorizer) RulesFor(_ context.Context, user *authn.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	rules, missing := r.Source.Index().RulesFor(user, namespace)
	return rules, false, utilerrors.NewAggregate(missing)
}

var _ authz.Lister = Authorizer{}
