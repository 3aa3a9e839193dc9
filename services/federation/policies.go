package federation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
)

// policyKey is the key of a policy in its queue: that of a namespace's has one.
func policyKey(p *api.Policy) string { return object.KeyOf(p) }

// getPolicy returns the policy of a key.
func (l *life) getPolicy(key string) (*api.Policy, object.Kind[*api.Policy], bool) {
	if strings.Contains(key, "/") {
		p, ok := l.policies.GetKey(key)
		return p, api.Policies, ok
	}
	p, ok := l.clusterPolicies.GetKey(key)
	return p, api.ClusterPolicies, ok
}

// checkPolicy says what of a policy makes no sense that its definition cannot say.
func checkPolicy(spec *api.PolicySpec) error {
	for i, s := range spec.ResourceSelectors {
		gvk := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		if err := carry.KindCarriable(gvk.Group, gvk.Kind); err != nil {
			return fmt.Errorf("resourceSelectors[%d]: %w", i, err)
		}
		if _, err := metav1.LabelSelectorAsSelector(s.LabelSelector); err != nil {
			return fmt.Errorf("resourceSelectors[%d].labelSelector: %w", i, err)
		}
	}
	targets := []api.ClusterTarget{spec.Placement.ClusterTarget}
	for _, w := range spec.Replicas.Weights {
		targets = append(targets, w.ClusterTarget)
	}
	for _, o := range spec.Overrides {
		targets = append(targets, o.ClusterTarget)
	}
	for _, t := range targets {
		if _, err := metav1.LabelSelectorAsSelector(t.ClusterSelector); err != nil {
			return fmt.Errorf("clusterSelector: %w", err)
		}
	}
	return carry.CheckOverrides(spec.Overrides)
}

// reconcilePolicy says of a policy whether it is followed.
func (l *life) reconcilePolicy(ctx context.Context, key string) (time.Duration, error) {
	p, kind, ok := l.getPolicy(key)
	if !ok || p.DeletionTimestamp != nil {
		return 0, nil
	}
	accepted := metav1.Condition{
		Type: api.Accepted, Status: metav1.ConditionTrue, Reason: "Valid", Message: "the policy is followed", ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(l.cfg.Clock.Now()),
	}
	if err := checkPolicy(&p.Spec); err != nil {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, "Invalid", err.Error()
	}
	changed := p.Copy()
	if !meta.SetStatusCondition(&changed.Status.Conditions, accepted) && p.Status.ObservedGeneration == p.Generation {
		return 0, nil
	}
	changed.Status.ObservedGeneration = p.Generation
	_, err := object.For(l.cfg.Objects, kind).UpdateStatus(ctx, changed)
	return 0, ignoreGone(err)
}

// selects reports whether a selector selects an object; one of a namespace's policy only sees that namespace.
func selects(s api.ResourceSelector, o *api.Any) bool {
	if o.GetAPIVersion() != s.APIVersion || o.GetKind() != s.Kind || s.Name != "" && s.Name != o.GetName() {
		return false
	}
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, o.GetNamespace()) {
		return false
	}
	if s.LabelSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	return err == nil && selector.Matches(labels.Set(o.GetLabels()))
}

// policyFor returns the policy that is followed for an object, nil where there is none, and whether it selects the object by its name.
func (l *life) policyFor(o *api.Any) (p *api.Policy, kind string, named bool) {
	if o.GetNamespace() != "" {
		if p, named := best(l.policies.List(o.GetNamespace()), o); p != nil {
			return p, api.Policies.GVK.Kind, named
		}
	}
	p, named = best(l.clusterPolicies.List(""), o)
	return p, api.ClusterPolicies.GVK.Kind, named
}

// best is the first of the policies that select the object: by priority, then by name.
func best(policies []*api.Policy, o *api.Any) (*api.Policy, bool) {
	var first *api.Policy
	named := false
	for _, p := range policies {
		i := slices.IndexFunc(p.Spec.ResourceSelectors, func(s api.ResourceSelector) bool { return selects(s, o) })
		if i < 0 || p.DeletionTimestamp != nil {
			continue
		}
		if first == nil || cmp.Or(-cmp.Compare(p.Spec.Priority, first.Spec.Priority), cmp.Compare(p.Name, first.Name)) < 0 {
			first, named = p, p.Spec.ResourceSelectors[i].Name != ""
		}
	}
	return first, named
}

// policyChanged asks for all objects that a policy selects, and for those where it was followed.
func (l *life) policyChanged(p *api.Policy, by trace.SpanContext) {
	if p == nil {
		return
	}
	for _, s := range p.Spec.ResourceSelectors {
		for _, o := range l.templates.List(schema.FromAPIVersionAndKind(s.APIVersion, s.Kind), p.Namespace) {
			if selects(s, o) {
				l.plans.Enqueue(o.ID().String(), by)
			}
		}
	}
	placements := l.allPlacements()
	if p.Namespace != "" {
		placements = l.placements.List(p.Namespace)
	}
	for _, placement := range placements {
		if ref := placement.Spec.Policy; ref != nil && ref.Name == p.Name && (ref.Kind == api.Policies.GVK.Kind) == (p.Namespace != "") {
			l.plans.Enqueue(placement.ID().String(), by)
		}
	}
}

// followed is the policy of a placement; ok is false where it says of one that is not there any more.
func (l *life) followed(p *api.Placement) (spec *api.PolicySpec, ok bool) {
	ref := p.Spec.Policy
	if ref == nil {
		return nil, true
	}
	from, namespace := l.clusterPolicies, ""
	if ref.Kind == api.Policies.GVK.Kind {
		from, namespace = l.policies, p.Namespace
	}
	policy, ok := from.Get(namespace, ref.Name)
	if !ok {
		return nil, false
	}
	return &policy.Spec, true
}
