package view

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

const all = "*"

// Match says which writes concern a webhook, a policy or a binding.
type Match struct {
	Rules, Exclude []admissionv1.NamedRuleWithOperations
	// Exact wants the request's own version in a rule.
	Exact              bool
	Namespaces, Object labels.Selector
	// Any is for a binding without rules: every write that its policy matches.
	Any bool
}

// NewMatch compiles what a configuration says. rules may be nil for a binding.
func NewMatch(rules, exclude []admissionv1.NamedRuleWithOperations, policy *admissionv1.MatchPolicyType, namespaces, object *metav1.LabelSelector) (*Match, error) {
	m := &Match{Rules: rules, Exclude: exclude, Exact: policy != nil && *policy == admissionv1.Exact}
	var err error
	if m.Namespaces, err = selector(namespaces); err != nil {
		return nil, err
	}
	m.Object, err = selector(object)
	return m, err
}

// selector selects everything where none is given.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// Exempt reports whether a write is to what configures admission: nobody could repair a webhook that refuses its own repair.
func Exempt(a *admission.Attributes) bool {
	return a.Resource.Kind.GVK.Group == admissionv1.GroupName
}

// Matches returns the version in which the write is to be shown, or nil where it does not concern.
func (m *Match) Matches(ctx context.Context, r *Request, objects admission.Objects) (*registry.Resource, error) {
	res := m.resource(r)
	if res == nil {
		return nil, nil
	}
	if ok, err := m.namespace(ctx, r, objects); !ok || err != nil {
		return nil, err
	}
	if ok, err := m.object(ctx, r, res); !ok || err != nil {
		return nil, err
	}
	return res, nil
}

// resource is the first version that a rule names, the request's own first of all.
func (m *Match) resource(r *Request) *registry.Resource {
	if anyOf(m.Exclude, r, r.Resource, m.Exact) {
		return nil
	}
	if m.Any && len(m.Rules) == 0 {
		return r.Resource
	}
	for i := range m.Rules {
		if rule(&m.Rules[i], r, r.Resource) {
			return r.Resource
		}
	}
	if m.Exact {
		return nil
	}
	for i := range m.Rules {
		for _, other := range r.Equivalents()[1:] {
			if rule(&m.Rules[i], r, other) {
				return other
			}
		}
	}
	return nil
}

func anyOf(rules []admissionv1.NamedRuleWithOperations, r *Request, res *registry.Resource, exact bool) bool {
	for i := range rules {
		if rule(&rules[i], r, res) {
			return true
		}
		if exact {
			continue
		}
		for _, other := range r.Equivalents()[1:] {
			if rule(&rules[i], r, other) {
				return true
			}
		}
	}
	return false
}

func rule(n *admissionv1.NamedRuleWithOperations, r *Request, res *registry.Resource) bool {
	return holds(n.Operations, admissionv1.OperationType(r.Operation)) &&
		holds(n.APIGroups, res.GVR.Group) && holds(n.APIVersions, res.GVR.Version) &&
		resource(n.Resources, res.GVR.Resource, r.Subresource) && scope(n.Scope, r) &&
		(len(n.ResourceNames) == 0 || slices.Contains(n.ResourceNames, r.Name))
}

func holds[T ~string](values []T, value T) bool {
	for _, v := range values {
		if v == all || v == value {
			return true
		}
	}
	return false
}

func resource(values []string, resource, subresource string) bool {
	for _, v := range values {
		wanted, sub, _ := strings.Cut(v, "/")
		if (wanted == all || wanted == resource) && (sub == all || sub == subresource) {
			return true
		}
	}
	return false
}

// scope of a Namespace is the cluster.
func scope(s *admissionv1.ScopeType, r *Request) bool {
	if s == nil || *s == admissionv1.AllScopes {
		return true
	}
	return r.Resource.Kind.Namespaced == (*s == admissionv1.NamespacedScope)
}

// namespace reports whether the namespace of the write is selected. Objects of the cluster always are, but Namespaces by their
// own labels.
func (m *Match) namespace(ctx context.Context, r *Request, objects admission.Objects) (bool, error) {
	if m.Namespaces.Empty() {
		return true, nil
	}
	if r.Is("", "namespaces") && r.Subresource == "" {
		current := r.Object
		if r.Operation == admission.Delete || current == nil {
			current = r.Old
		}
		return current != nil && m.Namespaces.Matches(labels.Set(current.GetLabels())), nil
	}
	if r.Where() == "" {
		return true, nil
	}
	ns, err := objects.Get(ctx, "", "namespaces", "", r.Where())
	if apierrors.IsNotFound(err) {
		return false, err
	}
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return m.Namespaces.Matches(labels.Set(ns.GetLabels())), nil
}

// object reports whether the object is selected, as it will be or as it was.
func (m *Match) object(ctx context.Context, r *Request, res *registry.Resource) (bool, error) {
	if m.Object.Empty() {
		return true, nil
	}
	v, err := r.As(ctx, res)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return m.labelled(v.Object) || m.labelled(v.Old), nil
}

func (m *Match) labelled(obj runtime.Object) bool {
	if obj == nil {
		return false
	}
	accessor, err := meta.Accessor(obj)
	return err == nil && m.Object.Matches(labels.Set(accessor.GetLabels()))
}

// NamespaceObject returns the Namespace of a write, nil for one to the cluster or to a Namespace itself.
func (r *Request) NamespaceObject(ctx context.Context, objects admission.Objects) (*corev1.Namespace, error) {
	if r.Namespace == "" || r.Is("", "namespaces") {
		return nil, nil
	}
	obj, err := objects.Get(ctx, "", "namespaces", "", r.Namespace)
	if err != nil {
		return nil, err
	}
	ns, _ := obj.(*corev1.Namespace)
	return ns, nil
}
