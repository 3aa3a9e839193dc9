package score

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/cluster"
)

// ServiceAffinity spreads the pods of a Service over the values of labels: each label has the same share, and gives a node the more of it the
// fewer of the pods are on nodes with its value. Nodes without a label get nothing for it. It is what serviceAntiAffinity was.
func ServiceAffinity(keys []string) Score {
	return Score{
		Name: "ServiceAffinity", Weight: 1,
		Share: func(pod *corev1.Pod, snapshot cluster.Snapshot, feasible []*cluster.Node) Shared {
			if len(keys) == 0 {
				return nil
			}
			s := &serviceSpread{keys: make([]domains, 0, len(keys)), pods: make([]int64, len(feasible))}
			for _, key := range keys {
				s.keys = append(s.keys, numberDomains(key, feasible))
			}
			selector := snapshot.Kin.Service(pod)
			if selector == nil {
				return s
			}
			s.self = 1
			for i, n := range feasible {
				for _, p := range n.Pods {
					if p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
						s.pods[i]++
					}
				}
			}
			return s
		},
	}
}

// serviceSpread counts the pods of a Service on the nodes that are feasible.
type serviceSpread struct {
	keys []domains
	pods []int64 // by node
	self int64   // 1 where the pod is one of them
}

func (s *serviceSpread) Place(i int) { s.pods[i] += s.self }
func (s *serviceSpread) Leave(i int) { s.pods[i] = 0 }

func (s *serviceSpread) Rate(ratings []int64) {
	var all int64
	for _, n := range s.pods {
		all += n
	}
	sums := make([]float64, len(ratings))
	for _, d := range s.keys {
		counts := make([]int64, len(d.numbers))
		for i, domain := range d.of {
			if domain != nowhere {
				counts[domain] += s.pods[i]
			}
		}
		for i, domain := range d.of {
			if domain == nowhere {
				continue
			}
			share := 1.0
			if all > 0 {
				share = float64(all-counts[domain]) / float64(all)
			}
			sums[i] += Max * share / float64(len(s.keys))
		}
	}
	for i, sum := range sums {
		ratings[i] = int64(sum)
	}
}
