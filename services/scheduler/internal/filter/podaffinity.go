package filter

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/cluster"
)

// InterPodAffinity refuses nodes by the required pod affinity and
// anti-affinity of the pod, and by the anti-affinity of the pods that run.
// Namespace selectors are matched by namespace name only where they are
// empty (all namespaces); others match nothing, since the scheduler does not
// follow namespaces' labels.
var InterPodAffinity = Filter{
	Name:        "InterPodAffinity",
	AcrossNodes: true,
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		p := podAffinity{affinity: affinityTerms(pod), anti: antiAffinityTerms(pod)}
		p.self = matchesAll(p.affinity, pod)
		for _, n := range snapshot.Nodes {
			if len(p.affinity)+len(p.anti) > 0 {
				for _, other := range n.Pods {
					p.count(other, n)
				}
			}
			for _, other := range n.Repelling {
				p.countRepelling(pod, other, n)
			}
		}
		if len(p.affinity) == 0 && len(p.anti) == 0 && len(p.repelledBy) == 0 {
			return nil
		}
		return &p
	},
}

type domain struct{ key, value string }

type podAffinity struct {
	affinity, anti []term
	self           bool
	attracted      []map[domain]bool // an affinity term: domains with a match
	any            bool              // some pod matches all affinity terms
	avoided        map[domain]bool   // domains that the pod's anti-affinity rules out
	repelledBy     map[domain]bool   // domains that others' anti-affinity rules out
}

func (p *podAffinity) count(other *corev1.Pod, n *cluster.Node) {
	if p.attracted == nil {
		p.attracted = make([]map[domain]bool, len(p.affinity))
	}
	if len(p.affinity) > 0 && matchesAll(p.affinity, other) {
		p.any = true
	}
	for i, t := range p.affinity {
		if t.matches(other) {
			mark(&p.attracted[i], t.key, n)
		}
	}
	for _, t := range p.anti {
		if t.matches(other) {
			mark(&p.avoided, t.key, n)
		}
	}
}

func (p *podAffinity) countRepelling(pod, other *corev1.Pod, n *cluster.Node) {
	for _, t := range antiAffinityTerms(other) {
		if t.matches(pod) {
			mark(&p.repelledBy, t.key, n)
		}
	}
}

func mark(set *map[domain]bool, key string, n *cluster.Node) {
	if value, ok := n.Object.Labels[key]; ok {
		if *set == nil {
			*set = map[domain]bool{}
		}
		(*set)[domain{key, value}] = true
	}
}

func (p *podAffinity) Check(n *cluster.Node) bool { return len(p.Explain(n)) == 0 }

func (p *podAffinity) Explain(n *cluster.Node) []string {
	if !p.attractedTo(n) {
		return []string{"node(s) didn't match pod affinity rules"}
	}
	for _, t := range p.anti {
		if value, ok := n.Object.Labels[t.key]; ok && p.avoided[domain{t.key, value}] {
			return []string{"node(s) didn't match pod anti-affinity rules"}
		}
	}
	for d := range p.repelledBy {
		if n.Object.Labels[d.key] == d.value {
			return []string{"node(s) didn't satisfy existing pods anti-affinity rules"}
		}
	}
	return nil
}

// Resolvable is false where pods are missing that this one wants to be with.
func (p *podAffinity) Resolvable(n *cluster.Node) bool { return p.attractedTo(n) }

func (p *podAffinity) attractedTo(n *cluster.Node) bool {
	for i, t := range p.affinity {
		value, ok := n.Object.Labels[t.key]
		// The first of a group that wants to be with its own kind may go anywhere that has the key.
		if !ok || (!(len(p.attracted) > i && p.attracted[i][domain{t.key, value}]) && (p.any || !p.self)) {
			return false
		}
	}
	return true
}

// term is a required pod affinity term, ready to match.
type term struct {
	key        string
	namespaces map[string]bool // nil is all
	selector   labels.Selector
}

func (t term) matches(pod *corev1.Pod) bool {
	return (t.namespaces == nil || t.namespaces[pod.Namespace]) && t.selector.Matches(labels.Set(pod.Labels))
}

func matchesAll(terms []term, pod *corev1.Pod) bool {
	for _, t := range terms {
		if !t.matches(pod) {
			return false
		}
	}
	return true
}

func affinityTerms(pod *corev1.Pod) []term {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return nil
}

func antiAffinityTerms(pod *corev1.Pod) []term {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return nil
}

func terms(pod *corev1.Pod, in []corev1.PodAffinityTerm) []term {
	out := make([]term, 0, len(in))
	for _, t := range in {
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		namespaces := map[string]bool{}
		for _, ns := range t.Namespaces {
			namespaces[ns] = true
		}
		if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
			namespaces[pod.Namespace] = true
		}
		if t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0 {
			namespaces = nil
		}
		out = append(out, term{t.TopologyKey, namespaces, selector})
	}
	return out
}
