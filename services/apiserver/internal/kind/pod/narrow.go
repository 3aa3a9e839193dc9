package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// narrow lets a gated pod's choice of nodes become smaller, never wider. It
// sets what it accepts (or has complained about) in rest back to old.
func narrow(rest, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(rest.NodeSelector, old.NodeSelector) {
		for key, value := range old.NodeSelector {
			if now, ok := rest.NodeSelector[key]; !ok || now != value {
				errs = append(errs, field.Invalid(path.Child("nodeSelector"), rest.NodeSelector,
					"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
				break
			}
		}
		rest.NodeSelector = old.NodeSelector
	}
	now, was := nodeAffinity(rest), nodeAffinity(old)
	if equality.Semantic.DeepEqual(now, was) {
		return errs
	}
	at := path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	errs = append(errs, narrower(required(now), required(was), at)...)
	// The rest of the affinity may change only with the node affinity set aside.
	if rest.Affinity == nil {
		rest.Affinity = &corev1.Affinity{}
	}
	rest.Affinity.NodeAffinity = was
	if old.Affinity == nil && *rest.Affinity == (corev1.Affinity{}) {
		rest.Affinity = nil
	}
	return errs
}

func nodeAffinity(s *corev1.PodSpec) *corev1.NodeAffinity {
	if s.Affinity == nil {
		return nil
	}
	return s.Affinity.NodeAffinity
}

func required(a *corev1.NodeAffinity) *corev1.NodeSelector {
	if a == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution
}

// narrower wants every term that was there with all of its requirements, and
// no further terms: terms are alternatives.
func narrower(now, was *corev1.NodeSelector, path *field.Path) field.ErrorList {
	if was == nil || len(was.NodeSelectorTerms) == 0 {
		return nil
	}
	terms := path.Child("nodeSelectorTerms")
	var present []corev1.NodeSelectorTerm
	if now != nil {
		present = now.NodeSelectorTerms
	}
	if len(present) != len(was.NodeSelectorTerms) {
		return field.ErrorList{field.Invalid(terms, present, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	for i, w := range was.NodeSelectorTerms {
		n := now.NodeSelectorTerms[i]
		empty := len(w.MatchExpressions) == 0 && len(w.MatchFields) == 0
		grown := prefix(w.MatchExpressions, n.MatchExpressions) && prefix(w.MatchFields, n.MatchFields)
		// An empty term matches nothing, so anything added would widen it.
		if !grown || empty && !equality.Semantic.DeepEqual(n, w) {
			return field.ErrorList{field.Invalid(terms.Index(i), n, "only additions are allowed (no mutations or deletions)")}
		}
	}
	return nil
}

func prefix(was, now []corev1.NodeSelectorRequirement) bool {
	return len(now) >= len(was) && equality.Semantic.DeepEqual(now[:len(was)], was) || len(was) == 0
}
