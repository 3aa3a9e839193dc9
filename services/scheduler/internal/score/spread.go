package score

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/spread"
)

// systemConstraints are those of pods that have none, where nobody has configured others.
var systemConstraints = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

// PodTopologySpread prefers nodes in domains with fewer pods like this one: those that its ScheduleAnyway constraints select. A pod without any
// constraint has the default ones, for the pods that its Services and its controller select; system says that these are Kubernetes' own, which nodes need not have the labels of.
func PodTopologySpread(defaults []corev1.TopologySpreadConstraint, system bool) Score {
	if system {
		defaults = systemConstraints
	}
	return Score{
		Name: "PodTopologySpread", Weight: 2,
		Share: func(pod *corev1.Pod, snapshot cluster.Snapshot, feasible []*cluster.Node) Shared {
			s := &spreading{strict: !system || len(pod.Spec.TopologySpreadConstraints) > 0}
			for _, c := range spread.Of(pod, corev1.ScheduleAnyway, defaults, snapshot.Kin) {
				s.add(pod, c)
			}
			if len(s.constraints) == 0 {
				return nil
			}
			s.count(snapshot.Nodes, feasible)
			return s
		},
	}
}

// spreading rates nodes by how many pods like one are in their domains.
type spreading struct {
	constraints []constraint
	strict      bool    // nodes that lack a label are the worst
	out         []bool  // by node: it is not rated
	crowds      []int64 // by node
}

type constraint struct {
	key    string
	skew   float64 // what the constraint tolerates
	self   int     // 1 where the pod itself is one that counts
	counts func(n *corev1.Node) bool
	like   func(p *corev1.Pod) bool

	domains
	pods   []int   // by domain
	weight float64 // the more domains there are, the more a pod in one counts
}

func (s *spreading) add(pod *corev1.Pod, c spread.Constraint) {
	like := c.Like(pod)
	added := constraint{key: c.TopologyKey, skew: float64(c.MaxSkew - 1), counts: spread.Counts(pod, c.TopologySpreadConstraint), like: like}
	if like(pod) {
		added.self = 1
	}
	s.constraints = append(s.constraints, added)
}

// count counts the pods of all nodes in the domains of the feasible ones that are rated.
func (s *spreading) count(nodes, feasible []*cluster.Node) {
	s.out = make([]bool, len(feasible))
	s.crowds = make([]int64, len(feasible))
	var rated []*cluster.Node
	for i, n := range feasible {
		if s.out[i] = !s.rates(n); !s.out[i] {
			rated = append(rated, n)
		}
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		size := c.sizeAmong(rated)
		c.domains = numberDomains(c.key, feasible)
		c.weight, c.pods = math.Log(float64(size+2)), make([]int, len(c.numbers))
		for _, n := range nodes {
			domain := c.in(c.key, n)
			if domain == nowhere || len(n.Pods) == 0 || !s.rates(n) || !c.counts(n.Object) {
				continue
			}
			for _, p := range n.Pods {
				if c.like(p) {
					c.pods[domain]++
				}
			}
		}
	}
}

// sizeAmong is how many domains nodes are in. Each is one of its own by its name; those without any other label are one together.
func (c *constraint) sizeAmong(rated []*cluster.Node) int {
	if c.key == corev1.LabelHostname {
		return len(rated)
	}
	d := numberDomains(c.key, rated)
	if slices.Contains(d.of, nowhere) {
		return len(d.numbers) + 1
	}
	return len(d.numbers)
}

// rates reports whether a node is in a domain of each constraint, or need not be.
func (s *spreading) rates(n *cluster.Node) bool {
	if !s.strict {
		return true
	}
	for i := range s.constraints {
		if _, ok := n.Object.Labels[s.constraints[i].key]; !ok {
			return false
		}
	}
	return true
}

func (s *spreading) Place(i int) {
	for j := range s.constraints {
		c := &s.constraints[j]
		if domain := c.of[i]; domain != nowhere {
			c.pods[domain] += c.self
		}
	}
}

func (s *spreading) Leave(i int) { s.out[i] = true }

func (s *spreading) Rate(ratings []int64) {
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i := range ratings {
		if s.out[i] {
			continue
		}
		s.crowds[i] = s.crowd(i)
		lowest, highest = min(lowest, s.crowds[i]), max(highest, s.crowds[i])
	}
	for i := range ratings {
		switch {
		case s.out[i]:
			ratings[i] = 0
		case highest == 0:
			ratings[i] = Max
		default:
			ratings[i] = Max * (highest + lowest - s.crowds[i]) / highest
		}
	}
}

// crowd is how many pods like this one are near a node, weighed.
func (s *spreading) crowd(i int) int64 {
	var sum float64
	for j := range s.constraints {
		c := &s.constraints[j]
		if domain := c.of[i]; domain != nowhere {
			sum += float64(c.pods[domain])*c.weight + c.skew
		}
	}
	return int64(math.Round(sum))
}
