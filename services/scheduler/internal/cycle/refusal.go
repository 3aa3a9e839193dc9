package cycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// against leaves in a snapshot the nominees to which pods like these leave their nodes: those of the same or a higher priority. The pods do not
// compete with each other.
func against(pods []*corev1.Pod, snapshot cluster.Snapshot) cluster.Snapshot {
	if len(snapshot.Nominees) == 0 || len(pods) == 0 {
		return snapshot
	}
	own := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		own[p.UID] = true
	}
	rivals := map[string][]cluster.Nominee{}
	for node, nominees := range snapshot.Nominees {
		for _, n := range nominees {
			if !own[n.Pod.UID] && scheduling.PodPriority(n.Pod) >= scheduling.PodPriority(pods[0]) {
				rivals[node] = append(rivals[node], n)
			}
		}
	}
	snapshot.Nominees = rivals
	return snapshot
}

func (r *round) feasible(n *cluster.Node) bool {
	refused, _ := r.refusal(n)
	return refused == nil
}

// refusal returns the first check that refuses a node, and the node as it was asked about; none where the pod may go there. A node that is kept
// for others must do both with and without them: they may come, and a pod that this one wants to be with may be one of them. Why it does not do with
// them goes before.
func (r *round) refusal(n *cluster.Node) (*asked, *cluster.Node) {
	if rivals := r.snapshot.Nominees[n.Name]; len(rivals) > 0 {
		crowded := n
		for _, rival := range rivals {
			crowded = crowded.With(rival.Pod, rival.Demand)
		}
		if c := r.meter.refusingOnce(r.where(crowded).checks, crowded); c != nil {
			return c, crowded
		}
	}
	return r.meter.refusing(r.checks, n), n
}

// refusing returns the first check that refuses a node, nil where none does.
func refusing(checks []asked, n *cluster.Node) *asked {
	for i := range checks {
		if !checks[i].check.Check(n) {
			return &checks[i]
		}
	}
	return nil
}

// where is the round as it would be if a node were like n. Only that node may be asked about.
func (r *round) where(n *cluster.Node) *round {
	if r.ahead != "" || !r.across && len(n.Repelling) == 0 { // no check depends on what is on other nodes, or on who repels
		return r
	}
	was := r.snapshot.Node(n.Name)
	altered := *r
	altered.checks = make([]asked, 0, len(r.prepared))
	for i, p := range r.prepared {
		if p.filter.Alter != nil {
			p.check = p.filter.Alter(r.pod, p.check, was, n)
		}
		if p.check != nil {
			altered.checks = append(altered.checks, asked{p.filter.Name, i, p.check})
		}
	}
	return &altered
}

// Trial asks what would let a pod in that no node can take.
type Trial struct{ round *round }

// Trial returns the trial of a pod.
func (p Profile) Trial(pod *corev1.Pod, snapshot cluster.Snapshot) Trial {
	return Trial{newRound(p, pod, against([]*corev1.Pod{pod}, p.sees(snapshot)), nil)}
}

// Asked are the nodes that the pod does not rule out by name.
func (t Trial) Asked() []*cluster.Node {
	nodes := make([]*cluster.Node, 0, t.round.askedCount())
	for i := range t.round.asked() {
		nodes = append(nodes, t.round.snapshot.Nodes[i])
	}
	return nodes
}

// Fits reports whether the pod could go to a node as it is.
func (t Trial) Fits(n *cluster.Node) bool { return t.round.feasible(n) }

// Resolvable reports whether fewer pods on a node may let the pod in that is refused there.
func (t Trial) Resolvable(n *cluster.Node) bool {
	refused, as := t.round.refusal(n)
	return refused != nil && refused.check.Resolvable(as)
}

// Refusals says why the pod could not go to a node if it were like n; none if it could.
func (t Trial) Refusals(n *cluster.Node) []string {
	refused, as := t.round.where(n).refusal(n)
	if refused == nil {
		return nil
	}
	return slices.Clone(refused.check.Explain(as))
}
