package score

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/affinity"
	"howdah.dev/services/scheduler/internal/cluster"
)

// InterPodAffinity prefers nodes near the pods that this one would rather be near, and that would rather have it near, and away from the others. hard
// is what it weighs that another one requires pods like this one; silent says that pods that wish nothing themselves are not rated by the wishes and
// needs of others. Those of pods that do wish are, by both.
func InterPodAffinity(hard int64, silent bool) Score {
	return Score{
		Name: "InterPodAffinity", Weight: 2,
		Share: func(pod *corev1.Pod, snapshot cluster.Snapshot, feasible []*cluster.Node) Shared {
			own := cluster.WishesOf(pod)
			if silent && (own == nil || len(own.Preferred) == 0) {
				return nil
			}
			if own == nil && !slices.ContainsFunc(snapshot.Nodes, func(n *cluster.Node) bool { return len(n.Wishing) > 0 }) {
				return nil
			}
			s := &neighbourly{pod: pod, namespaces: snapshot.Namespaces, hard: hard, feasible: feasible, out: make([]bool, len(feasible))}
			if own != nil {
				s.own = *own
			}
			for _, n := range snapshot.Nodes {
				if len(s.own.Preferred) > 0 {
					for _, other := range n.Pods {
						s.wish(other, func(key string, weight int64) { s.add(key, n, weight) })
					}
				}
				for _, other := range n.Wishing {
					s.wished(other.Wishes, func(key string, weight int64) { s.add(key, n, weight) })
				}
			}
			self := func(key string, weight int64) { s.key(key).self += weight }
			s.wish(pod, self)
			s.wished(&s.own, self)
			if len(s.keys) == 0 {
				return nil
			}
			return s
		},
	}
}

// neighbourly rates nodes by the wishes of a pod and of those that run.
type neighbourly struct {
	pod        *corev1.Pod
	namespaces affinity.Namespaces
	hard       int64
	own        cluster.Wishes
	feasible   []*cluster.Node
	out        []bool // by node: it is not rated any more
	keys       []*wished
}

// wished is what is wished by one label of the nodes.
type wished struct {
	key string
	domains
	sums []int64 // by domain
	self int64   // what a pod like the rated one adds where it goes
}

// key returns what is wished by a label.
func (s *neighbourly) key(name string) *wished {
	for _, k := range s.keys {
		if k.key == name {
			return k
		}
	}
	k := &wished{key: name, domains: numberDomains(name, s.feasible)}
	k.sums = make([]int64, len(k.numbers))
	s.keys = append(s.keys, k)
	return k
}

// wish tells what the pod wishes of another one.
func (s *neighbourly) wish(other *corev1.Pod, tell func(key string, weight int64)) {
	for _, w := range s.own.Preferred {
		if w.Matches(other, s.namespaces) {
			tell(w.Key, w.Weight)
		}
	}
}

// wished tells what another one wishes of the pod.
func (s *neighbourly) wished(wishes *cluster.Wishes, tell func(key string, weight int64)) {
	if s.hard > 0 {
		for _, t := range wishes.Required {
			if t.Matches(s.pod, s.namespaces) {
				tell(t.Key, s.hard)
			}
		}
	}
	for _, w := range wishes.Preferred {
		if w.Matches(s.pod, s.namespaces) {
			tell(w.Key, w.Weight)
		}
	}
}

func (s *neighbourly) add(name string, n *cluster.Node, weight int64) {
	k := s.key(name)
	if domain := k.in(name, n); domain != nowhere {
		k.sums[domain] += weight
	}
}

func (s *neighbourly) Place(i int) {
	for _, k := range s.keys {
		if domain := k.of[i]; domain != nowhere {
			k.sums[domain] += k.self
		}
	}
}

func (s *neighbourly) Leave(i int) { s.out[i] = true }

func (s *neighbourly) Rate(ratings []int64) {
	clear(ratings)
	for _, k := range s.keys {
		for i, domain := range k.of {
			if domain != nowhere {
				ratings[i] += k.sums[domain]
			}
		}
	}
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	for i, rating := range ratings {
		if !s.out[i] {
			lowest, highest = min(lowest, rating), max(highest, rating)
		}
	}
	for i, rating := range ratings {
		ratings[i] = 0
		if highest > lowest && !s.out[i] {
			ratings[i] = Max * (rating - lowest) / (highest - lowest)
		}
	}
}
