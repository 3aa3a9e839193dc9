package filter

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/spread"
)

// PodTopologySpread refuses nodes where the pod would make the spread of its
// like over the topology's domains more skewed than maxSkew. A pod without any
// constraint has the default ones.
func PodTopologySpread(defaults []corev1.TopologySpreadConstraint) Filter {
	return Filter{
		Name:        "PodTopologySpread",
		AcrossNodes: true,
		Alter:       alterSpread,
		Loses: func(pod *corev1.Pod, gone *corev1.Node, snapshot cluster.Snapshot) bool { // its domain may have been that of the lowest count
			all := spread.Of(pod, corev1.DoNotSchedule, defaults, snapshot.Kin)
			return len(all) > 0 && inAll(gone, all)
		},
		Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
			var constraints []constraint
			all := spread.Of(pod, corev1.DoNotSchedule, defaults, snapshot.Kin)
			for _, c := range all {
				constraints = append(constraints, countSpread(pod, c, all, snapshot.Nodes))
			}
			if len(constraints) == 0 {
				return nil
			}
			return spreads(constraints)
		},
	}
}

// constraint is one of the pod, with its counts by domain.
type constraint struct {
	key     string
	maxSkew int
	self    int // 1 where the pod counts itself
	domains map[string]int
	lowest  int
	// zero says that there are fewer domains than minDomains: the lowest is 0 then.
	zero bool
	// least is the domain of the lowest count, and second the lowest count of the others, -1 where there are none.
	least  string
	second int
	counts func(n *corev1.Node) bool // whether a node's pods count
	like   func(p *corev1.Pod) bool  // whether a pod does
	moved  *moved                    // nil: no node is otherwise
}

// moved is the count of a domain of which a node is otherwise.
type moved struct {
	domain string
	count  int
}

// countSpread counts for one of a pod's constraints. Nodes that are in no domain of any other are in none of this one.
func countSpread(pod *corev1.Pod, c spread.Constraint, all []spread.Constraint, nodes []*cluster.Node) constraint {
	s := constraint{key: c.TopologyKey, maxSkew: int(c.MaxSkew), domains: map[string]int{}}
	if c.Selector.Matches(labels.Set(pod.Labels)) {
		s.self = 1
	}
	counts := spread.Counts(pod, c.TopologySpreadConstraint)
	s.counts = func(n *corev1.Node) bool { return inAll(n, all) && counts(n) }
	s.like = c.Like(pod)
	for _, n := range nodes {
		domain, ok := n.Object.Labels[c.TopologyKey]
		if !ok || !s.counts(n.Object) {
			continue
		}
		count := s.domains[domain]
		for _, p := range n.Pods {
			if s.like(p) {
				count++
			}
		}
		s.domains[domain] = count
	}
	s.zero = c.MinDomains != nil && len(s.domains) < int(*c.MinDomains)
	s.rank()
	return s
}

// inAll reports whether a node is in a domain of each constraint.
func inAll(n *corev1.Node, all []spread.Constraint) bool {
	for i := range all {
		if _, ok := n.Labels[all[i].TopologyKey]; !ok {
			return false
		}
	}
	return true
}

// rank finds the lowest counts.
func (s *constraint) rank() {
	s.lowest, s.second = -1, -1
	for domain, count := range s.domains {
		switch {
		case s.lowest < 0 || count < s.lowest:
			s.least, s.lowest, s.second = domain, count, s.lowest
		case s.second < 0 || count < s.second:
			s.second = count
		}
	}
	if s.lowest = max(s.lowest, 0); s.zero {
		s.lowest = 0
	}
}

// alterSpread counts only the pods by which the node differs.
func alterSpread(_ *corev1.Pod, check Check, was, now *cluster.Node) Check {
	constraints, ok := check.(spreads)
	if !ok {
		return check // without constraints
	}
	altered := make(spreads, len(constraints))
	for i, s := range constraints {
		altered[i] = s.with(was, now)
	}
	return altered
}

func (s constraint) with(was, now *cluster.Node) constraint {
	domain, ok := now.Object.Labels[s.key]
	if !ok || !s.counts(now.Object) {
		return s
	}
	count := s.domains[domain]
	changed(was.Pods, now.Pods, func(p *corev1.Pod) {
		if s.like(p) {
			count--
		}
	}, func(p *corev1.Pod) {
		if s.like(p) {
			count++
		}
	})
	s.moved = &moved{domain, count}
	if s.zero {
		return s
	}
	others := s.lowest
	if domain == s.least {
		others = s.second
	}
	if s.lowest = count; others >= 0 {
		s.lowest = min(count, others)
	}
	return s
}

// in counts the pods of a domain.
func (s constraint) in(domain string) int {
	if s.moved != nil && s.moved.domain == domain {
		return s.moved.count
	}
	return s.domains[domain]
}

type spreads []constraint

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
		if c.in(domain)+c.self-c.lowest > c.maxSkew {
			return []string{"node(s) didn't match pod topology spread constraints"}
		}
	}
	return nil
}
