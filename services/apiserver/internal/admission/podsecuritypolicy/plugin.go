// Package podsecuritypolicy is the admission plugin PodSecurityPolicy, which Kubernetes removed in 1.25: a pod must be allowed by a
// policy (policy/v1beta1) that its creator or its service account may use.
package podsecuritypolicy

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// The kind of the policies.
const (
	group    = "policy"
	resource = "podsecuritypolicies"
)

// Plugin checks pods against the policies, and fills in what a policy demands.
type Plugin struct {
	Objects    admission.Objects
	Authorizer authz.Authorizer
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return "PodSecurityPolicy" }

// Handles implements admission.Plugin.
func (*Plugin) Handles(a *admission.Attributes) bool {
	if !a.Is("", "pods") {
		return false
	}
	return a.Operation == admission.Create && a.Subresource == "" ||
		a.Operation == admission.Update && (a.Subresource == "" || a.Subresource == "ephemeralcontainers")
}

// Admit implements admission.Mutator: the pod becomes what the first policy by name makes of it, unless one takes it as it is.
func (p *Plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Operation != admission.Create {
		return nil
	}
	changed, err := p.choose(ctx, a, pod, true)
	if err != nil {
		return err
	}
	*pod = *changed
	return nil
}

// Validate implements admission.Validator: what other plugins made of the pod since must be allowed as it is.
func (p *Plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if old, ok := a.Old.(*corev1.Pod); ok && equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		return nil // metadata does not concern the policies
	}
	chosen, err := p.choose(ctx, a, pod, false)
	if err != nil {
		return err
	}
	a.Annotate("podsecuritypolicy.policy.k8s.io/validate-policy", chosen.Annotations[usedPolicy])
	return nil
}

// choose returns the pod as a policy admits it, with the policy's name. May it be changed, a policy that does not change it goes first.
func (p *Plugin) choose(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, mayChange bool) (*corev1.Pod, error) {
	policies, err := p.usable(ctx, a, pod)
	if err != nil {
		return nil, a.Forbidden(fmt.Errorf("PodSecurityPolicy: %w", err))
	}
	if len(policies) == 0 {
		return nil, a.Forbidden(fmt.Errorf("PodSecurityPolicy: no providers available to validate pod request"))
	}
	var errs field.ErrorList
	var filled *corev1.Pod
	for _, one := range policies {
		candidate := pod.DeepCopy()
		if mayChange {
			one.fill(candidate)
		}
		problems := one.check(candidate)
		if len(problems) > 0 {
			errs = append(errs, problems...)
			continue
		}
		same := equality.Semantic.DeepEqual(candidate.Spec, pod.Spec)
		note(candidate, one.name)
		if same {
			return candidate, nil
		}
		if filled == nil {
			filled = candidate
		}
	}
	if filled == nil {
		return nil, a.Forbidden(fmt.Errorf("PodSecurityPolicy: unable to admit pod: %v", errs))
	}
	return filled, nil
}

func note(pod *corev1.Pod, policy string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[usedPolicy] = policy
}

// usable returns the policies that whoever creates the pod, or the pod's service account, may use, by name.
func (p *Plugin) usable(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) ([]*policy, error) {
	users := []*authn.User{a.User}
	if pod.Spec.ServiceAccountName != "" {
		users = append(users, &authn.User{
			Name:   authn.ServiceAccountName(a.Namespace, pod.Spec.ServiceAccountName),
			Groups: append(authn.ServiceAccountGroups(a.Namespace), authn.AuthenticatedGroup),
		})
	}
	var out []*policy
	for _, obj := range p.Objects.List(ctx, group, resource, "") {
		allowed, err := p.allowed(ctx, users, a.Namespace, obj.GetName())
		if err != nil {
			return nil, err
		}
		if !allowed {
			continue
		}
		one, err := read(obj)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", obj.GetName(), err)
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *policy) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

func (p *Plugin) allowed(ctx context.Context, users []*authn.User, namespace, name string) (bool, error) {
	for _, user := range users {
		decision, _, err := p.Authorizer.Authorize(ctx, &authz.Attributes{
			User: user, Verb: "use", Group: group, Version: "v1beta1", Resource: resource, Namespace: namespace, Name: name,
		})
		if err != nil {
			return false, err
		}
		if decision == authz.Allow {
			return true, nil
		}
	}
	return false, nil
}
