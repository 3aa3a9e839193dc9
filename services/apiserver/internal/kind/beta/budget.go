package beta

import (
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// emptyKey is a label that no pod has. An empty selector means no pod in
// policy/v1beta1 and every pod in policy/v1: in the other version each is a
// requirement on this label, which means the same there.
const emptyKey = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func budget() registry.Version {
	gv := policyv1beta1.SchemeGroupVersion
	return registry.Version{
		GVK:     gv.WithKind("PodDisruptionBudget"),
		New:     func() registry.Object { return &policyv1beta1.PodDisruptionBudget{} },
		NewList: func() runtime.Object { return &policyv1beta1.PodDisruptionBudgetList{} },
		ToStored: typed.Convert(func(in *policyv1beta1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
			out := &policyv1.PodDisruptionBudget{}
			recast.Into(in, out)
			out.Spec.Selector = reselect(in.Spec.Selector, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
			out.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
			return out
		}),
		FromStored: typed.Convert(func(in *policyv1.PodDisruptionBudget) *policyv1beta1.PodDisruptionBudget {
			out := &policyv1beta1.PodDisruptionBudget{}
			recast.Into(in, out)
			out.Spec.Selector = reselect(in.Spec.Selector, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpExists)
			out.SetGroupVersionKind(gv.WithKind("PodDisruptionBudget"))
			return out
		}),
		Deprecated: warning(&policyv1beta1.PodDisruptionBudget{}, gv, policyv1.SchemeGroupVersion),
	}
}

// reselect turns an empty selector into a requirement with operator empty, and
// one with operator other, alone, into an empty selector.
func reselect(s *metav1.LabelSelector, empty, other metav1.LabelSelectorOperator) *metav1.LabelSelector {
	if s == nil || len(s.MatchLabels) > 0 {
		return s
	}
	switch {
	case len(s.MatchExpressions) == 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: emptyKey, Operator: empty}}}
	case len(s.MatchExpressions) == 1 && s.MatchExpressions[0].Key == emptyKey && s.MatchExpressions[0].Operator == other:
		return &metav1.LabelSelector{}
	}
	return s
}
