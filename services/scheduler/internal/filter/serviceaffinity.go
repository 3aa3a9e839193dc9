package filter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/scheduler/internal/cluster"
)

// ServiceAffinity keeps together the pods of a Service: on nodes that have for each of some labels the value that the first node has which
// has a pod with all of their labels. What a pod's node selector says of such a label goes before that. It is what CheckServiceAffinity was.
func ServiceAffinity(keys []string) Filter {
	return Filter{
		Name:        "ServiceAffinity",
		AcrossNodes: len(keys) > 0,
		Alter:       alterServiceAffinity,
		Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
			if len(keys) == 0 {
				return nil
			}
			s := serviceAffinity{keys: keys, own: labels.Set{}}
			for _, key := range keys {
				if value, ok := pod.Spec.NodeSelector[key]; ok {
					s.own[key] = value
				}
			}
			if len(s.own) == len(keys) || snapshot.Kin.Service(pod) == nil {
				return s
			}
			alike := labels.SelectorFromSet(pod.Labels)
			s.like = func(n *cluster.Node) bool {
				return slices.ContainsFunc(n.Pods, func(p *corev1.Pod) bool {
					return p.Namespace == pod.Namespace && alike.Matches(labels.Set(p.Labels))
				})
			}
			for _, n := range snapshot.Nodes {
				if s.like(n) {
					if s.with = append(s.with, n); len(s.with) == 2 { // the next one, if the first has none any more
						break
					}
				}
			}
			return s
		},
	}
}

type serviceAffinity struct {
	keys []string
	own  labels.Set               // what the pod itself asks for
	like func(*cluster.Node) bool // whether a node has a pod like it; nil where no Service has the pod
	with []*cluster.Node          // the first nodes that have, two at most
}

// wanted are the values that a node must have.
func (s serviceAffinity) wanted() labels.Set {
	if len(s.with) == 0 {
		return s.own
	}
	wanted := labels.Set{}
	for _, key := range s.keys {
		if value, ok := s.own[key]; ok {
			wanted[key] = value
		} else if value, ok := s.with[0].Object.Labels[key]; ok {
			wanted[key] = value
		}
	}
	return wanted
}

func (s serviceAffinity) Check(n *cluster.Node) bool {
	return labels.SelectorFromSet(s.wanted()).Matches(labels.Set(n.Object.Labels))
}

func (s serviceAffinity) Explain(*cluster.Node) []string {
	return []string{"node(s) didn't match service affinity"}
}

func (s serviceAffinity) Resolvable(*cluster.Node) bool { return true }

// alterServiceAffinity looks only at the node that differs.
func alterServiceAffinity(_ *corev1.Pod, c Check, _, now *cluster.Node) Check {
	s, ok := c.(serviceAffinity)
	if !ok || s.like == nil {
		return c
	}
	at := slices.IndexFunc(s.with, func(n *cluster.Node) bool { return n.Name == now.Name })
	switch like := s.like(now); {
	case at >= 0 && !like:
		s.with = slices.Delete(slices.Clone(s.with), at, at+1)
	case len(s.with) == 0 && like:
		s.with = []*cluster.Node{now}
	}
	return s
}
