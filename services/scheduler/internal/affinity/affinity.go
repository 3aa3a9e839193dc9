// Package affinity has the terms by which pods want to be near other pods, or away from them, ready to be matched.
// Source: Kubernetes, Concepts > Assigning Pods to Nodes > Inter-pod affinity and anti-affinity.
package affinity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Term is a term of one pod: the others that it is about, and the label of nodes by whose values they are near.
type Term struct {
	Key        string
	namespaces map[string]bool
	among      labels.Selector // of namespaces, beside those that are named; nil selects none
	selector   labels.Selector
}

// Matches reports whether the term is about a pod.
func (t Term) Matches(pod *corev1.Pod, namespaces Namespaces) bool {
	if !t.namespaces[pod.Namespace] && (t.among == nil || !t.among.Matches(namespaces.labels(pod.Namespace))) {
		return false
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

// MatchesAll reports whether all terms are about a pod.
func MatchesAll(terms []Term, pod *corev1.Pod, namespaces Namespaces) bool {
	for _, t := range terms {
		if !t.Matches(pod, namespaces) {
			return false
		}
	}
	return true
}

// Weighted is a term that is a wish: the weight is negative where the pod wants to be away.
type Weighted struct {
	Term
	Weight int64
}

// Required returns the terms without which the pod goes nowhere.
func Required(pod *corev1.Pod) []Term {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return nil
}

// RequiredAnti returns the terms of pods that it goes nowhere near.
func RequiredAnti(pod *corev1.Pod) []Term {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return nil
}

// Preferred returns the pod's wishes, for and against.
func Preferred(pod *corev1.Pod) []Weighted {
	a := pod.Spec.Affinity
	if a == nil {
		return nil
	}
	var out []Weighted
	if a.PodAffinity != nil {
		out = weighted(out, pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if a.PodAntiAffinity != nil {
		out = weighted(out, pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, -1)
	}
	return out
}

func weighted(to []Weighted, pod *corev1.Pod, in []corev1.WeightedPodAffinityTerm, sign int64) []Weighted {
	for i := range in {
		to = append(to, Weighted{termOf(pod, &in[i].PodAffinityTerm), sign * int64(in[i].Weight)})
	}
	return to
}

func terms(pod *corev1.Pod, in []corev1.PodAffinityTerm) []Term {
	out := make([]Term, 0, len(in))
	for i := range in {
		out = append(out, termOf(pod, &in[i]))
	}
	return out
}

// termOf prepares a pod's term. One without namespaces is about those of the pod's own.
func termOf(pod *corev1.Pod, t *corev1.PodAffinityTerm) Term {
	out := Term{Key: t.TopologyKey, selector: selector(t.LabelSelector), namespaces: map[string]bool{}}
	for _, ns := range t.Namespaces {
		out.namespaces[ns] = true
	}
	if t.NamespaceSelector != nil {
		out.among = selector(t.NamespaceSelector)
	} else if len(t.Namespaces) == 0 {
		out.namespaces[pod.Namespace] = true
	}
	return out
}

// selector prepares a selector; validation lets no malformed one in.
func selector(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}
