package filter

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/affinity"
	"howdah.dev/services/scheduler/internal/cluster"
)

// InterPodAffinity refuses nodes by the required pod affinity and
// anti-affinity of the pod, and by the anti-affinity of the pods that run.
var InterPodAffinity = Filter{
	Name:        "InterPodAffinity",
	AcrossNodes: true,
	Prepare:     preparePodAffinity,
	Alter:       alterPodAffinity,
}

func preparePodAffinity(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
	p := &podAffinity{pod: pod, namespaces: snapshot.Namespaces, affinity: affinity.Required(pod), anti: affinity.RequiredAnti(pod)}
	p.self = affinity.MatchesAll(p.affinity, pod, p.namespaces)
	p.all.attracted = make([]domains, len(p.affinity))
	for _, n := range snapshot.Nodes {
		if len(p.affinity)+len(p.anti) > 0 {
			for _, other := range n.Pods {
				p.count(&p.all, other, n, 1)
			}
		}
		for _, other := range n.Repelling {
			p.countRepelling(&p.all, other, n, 1)
		}
	}
	if len(p.affinity) == 0 && len(p.anti) == 0 && len(p.all.repelledBy) == 0 {
		return nil
	}
	return p
}

type domain struct{ key, value string }

// domains counts pods by the domains that they are in.
type domains map[domain]int

func (d *domains) add(key string, n *cluster.Node, by int) {
	if value, ok := n.Object.Labels[key]; ok {
		if *d == nil {
			*d = domains{}
		}
		(*d)[domain{key, value}] += by
	}
}

type podAffinity struct {
	pod            *corev1.Pod
	affinity, anti []affinity.Term
	namespaces     affinity.Namespaces
	self           bool
	all            affinityCounts // of the nodes that it was prepared for
	altered        affinityCounts // what is added to these if one node is otherwise
}

// affinityCounts are the pods that matter.
type affinityCounts struct {
	attracted  []domains       // by affinity term: those that match it
	any        int             // those that match all affinity terms
	avoided    domains         // those that the pod's anti-affinity keeps away from
	repelledBy domains         // anti-affinity terms of others that keep it away
	repelling  map[string]bool // the topology keys of these
}

func (p *podAffinity) count(c *affinityCounts, other *corev1.Pod, n *cluster.Node, by int) {
	if len(p.affinity) > 0 && affinity.MatchesAll(p.affinity, other, p.namespaces) {
		c.any += by
	}
	for i, t := range p.affinity {
		if t.Matches(other, p.namespaces) {
			c.attracted[i].add(t.Key, n, by)
		}
	}
	for _, t := range p.anti {
		if t.Matches(other, p.namespaces) {
			c.avoided.add(t.Key, n, by)
		}
	}
}

func (p *podAffinity) countRepelling(c *affinityCounts, other *corev1.Pod, n *cluster.Node, by int) {
	for _, t := range affinity.RequiredAnti(other) {
		if t.Matches(p.pod, p.namespaces) {
			c.repelledBy.add(t.Key, n, by)
			if c.repelling == nil {
				c.repelling = map[string]bool{}
			}
			c.repelling[t.Key] = true
		}
	}
}

// alterPodAffinity counts only the pods by which the node differs.
func alterPodAffinity(pod *corev1.Pod, check Check, was, now *cluster.Node) Check {
	p, ok := check.(*podAffinity)
	if !ok { // no pod of the other nodes matters
		return preparePodAffinity(pod, cluster.Snapshot{Nodes: []*cluster.Node{now}})
	}
	a := *p
	a.altered = affinityCounts{attracted: make([]domains, len(p.affinity))}
	if len(p.affinity)+len(p.anti) > 0 {
		changed(was.Pods, now.Pods,
			func(other *corev1.Pod) { a.count(&a.altered, other, was, -1) },
			func(other *corev1.Pod) { a.count(&a.altered, other, now, 1) })
	}
	changed(was.Repelling, now.Repelling,
		func(other *corev1.Pod) { a.countRepelling(&a.altered, other, was, -1) },
		func(other *corev1.Pod) { a.countRepelling(&a.altered, other, now, 1) })
	return &a
}

func (p *podAffinity) Check(n *cluster.Node) bool { return len(p.Explain(n)) == 0 }

func (p *podAffinity) Explain(n *cluster.Node) []string {
	if !p.attractedTo(n) {
		return []string{"node(s) didn't match pod affinity rules"}
	}
	for _, t := range p.anti {
		if value, ok := n.Object.Labels[t.Key]; ok && p.all.avoided[domain{t.Key, value}]+p.altered.avoided[domain{t.Key, value}] > 0 {
			return []string{"node(s) didn't match pod anti-affinity rules"}
		}
	}
	if p.repelled(n) {
		return []string{"node(s) didn't satisfy existing pods anti-affinity rules"}
	}
	return nil
}

// repelled says whether a pod in one of the node's domains keeps this one away.
func (p *podAffinity) repelled(n *cluster.Node) bool {
	for _, counts := range []*affinityCounts{&p.all, &p.altered} {
		for key := range counts.repelling {
			value, ok := n.Object.Labels[key]
			if d := (domain{key, value}); ok && p.all.repelledBy[d]+p.altered.repelledBy[d] > 0 {
				return true
			}
		}
	}
	return false
}

// Resolvable is false where pods are missing that this one wants to be with.
func (p *podAffinity) Resolvable(n *cluster.Node) bool { return p.attractedTo(n) }

func (p *podAffinity) attractedTo(n *cluster.Node) bool {
	for i, t := range p.affinity {
		value, ok := n.Object.Labels[t.Key]
		// The first of a group that wants to be with its own kind may go anywhere that has the key.
		if !ok {
			return false
		}
		there := p.all.attracted[i][domain{t.Key, value}]
		if p.altered.attracted != nil {
			there += p.altered.attracted[i][domain{t.Key, value}]
		}
		if there == 0 && (p.all.any+p.altered.any > 0 || !p.self) {
			return false
		}
	}
	return true
}
