package filter

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"howdah.dev/services/scheduler/internal/cluster"
)

// PodTopologySpread refuses nodes where the pod would make the spread of its
// like over the topology's domains more skewed than maxSkew.
var PodTopologySpread = Filter{
	Name:        "PodTopologySpread",
	AcrossNodes: true,
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		var constraints []spread
		for _, c := range pod.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				constraints = append(constraints, countSpread(pod, c, snapshot))
			}
		}
		if len(constraints) == 0 {
			return nil
		}
		return spreads(constraints)
	},
}

// spread is one constraint with its counts by domain.
type spread struct {
	key     string
	maxSkew int
	self    int // 1 where the pod counts itself
	domains map[string]int
	lowest  int
}

func countSpread(pod *corev1.Pod, c corev1.TopologySpreadConstraint, snapshot cluster.Snapshot) spread {
	selector := spreadSelector(pod, c)
	s := spread{key: c.TopologyKey, maxSkew: int(c.MaxSkew), domains: map[string]int{}}
	if selector.Matches(labels.Set(pod.Labels)) {
		s.self = 1
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	honorTaints := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	ignoreAffinity := c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	taints := TaintToleration.Prepare(pod, snapshot)
	for _, n := range snapshot.Nodes {
		domain, ok := n.Object.Labels[c.TopologyKey]
		if !ok {
			continue
		}
		if matches, err := affinity.Match(n.Object); !ignoreAffinity && (!matches || err != nil) {
			continue
		}
		if honorTaints && !taints.Check(n) {
			continue
		}
		count := s.domains[domain]
		for _, p := range n.Pods {
			if p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
				count++
			}
		}
		s.domains[domain] = count
	}
	s.lowest = lowest(s.domains)
	if c.MinDomains != nil && len(s.domains) < int(*c.MinDomains) {
		s.lowest = 0
	}
	return s
}

// spreadSelector is the constraint's selector, narrowed by the values that
// the pod itself has for matchLabelKeys.
func spreadSelector(pod *corev1.Pod, c corev1.TopologySpreadConstraint) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return labels.Nothing()
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			requirement, err := labels.NewRequirement(key, "in", []string{value})
			if err != nil {
				return labels.Nothing()
			}
			selector = selector.Add(*requirement)
		}
	}
	return selector
}

func lowest(domains map[string]int) int {
	low := -1
	for _, count := range domains {
		if low < 0 || count < low {
			low = count
		}
	}
	return max(low, 0)
}

type spreads []spread

func (s spreads) Check(n *cluster.Node) bool { return len(s.Explain(n)) == 0 }

// Resolvable is false where the node is in no domain.
func (s spreads) Resolvable(n *cluster.Node) bool {
	for _, c := range s {
		if _, ok := n.Object.Labels[c.key]; !ok {
			return false
		}
	}
	return true
}

func (s spreads) Explain(n *cluster.Node) []string {
	for _, c := range s {
		domain, ok := n.Object.Labels[c.key]
		if !ok {
			return []string{"node(s) didn't match pod topology spread constraints (missing required label)"}
		}
		if c.domains[domain]+c.self-c.lowest > c.maxSkew {
			return []string{"node(s) didn't match pod topology spread constraints"}
		}
	}
	return nil
}
