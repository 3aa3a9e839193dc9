package cycle

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/filter"
)

// Explanation is every node's verdict on a pod, best first, and the message
// where no node is feasible.
type Explanation struct {
	Nodes   []NodeVerdict
	Message string
}

// NodeVerdict is what the profile says of one node.
type NodeVerdict struct {
	Node     string
	Feasible bool
	Score    int64
	Filters  []FilterVerdict
	Scores   []ScoreVerdict
}

// FilterVerdict is what one filter says; no reasons where the node passes.
type FilterVerdict struct {
	Filter  string
	Reasons []string
}

// ScoreVerdict is one normalised rating.
type ScoreVerdict struct {
	Name          string
	Score, Weight int64
}

// keptForOthers stands for the filters where a node would do, were it not kept for pods that had others removed from it.
const keptForOthers = "NominatedPods"

// faulty stands for them where a node would do, were nothing wrong with what the pod wants.
const faulty = "Fault"

// Explain runs every filter on every node, and every score on the feasible
// ones: the same code that places pods.
func (p Profile) Explain(pod *corev1.Pod, snapshot cluster.Snapshot) Explanation {
	snapshot = p.sees(snapshot)
	verdicts := make([]NodeVerdict, len(snapshot.Nodes))
	var feasible []int
	for i, n := range snapshot.Nodes {
		verdicts[i] = NodeVerdict{Node: n.Name, Feasible: true}
	}
	for _, f := range p.Filters {
		check := f.Prepare(pod, snapshot)
		if f.Ahead != nil {
			if why := f.Ahead(pod, snapshot); why != "" {
				check = filter.Everywhere(why)
			}
		}
		for i, n := range snapshot.Nodes {
			verdict := FilterVerdict{Filter: f.Name}
			if check != nil && !check.Check(n) {
				verdict.Reasons = check.Explain(n)
				verdicts[i].Feasible = false
			}
			verdicts[i].Filters = append(verdicts[i].Filters, verdict)
		}
	}
	round := newRound(p, pod, against([]*corev1.Pod{pod}, snapshot), nil)
	for i, n := range snapshot.Nodes {
		if refused, as := round.refusal(n); verdicts[i].Feasible && refused != nil {
			verdicts[i].Feasible = false
			verdicts[i].Filters = append(verdicts[i].Filters, FilterVerdict{Filter: keptForOthers, Reasons: refused.check.Explain(as)})
		}
		if verdicts[i].Feasible {
			feasible = append(feasible, i)
		}
	}
	if why := round.fault(); why != "" {
		for _, i := range feasible {
			verdicts[i].Feasible = false
			verdicts[i].Filters = append(verdicts[i].Filters, FilterVerdict{Filter: faulty, Reasons: []string{why}})
		}
		feasible = nil
	}
	p.explainScores(pod, snapshot, verdicts, feasible)

	explanation := Explanation{Nodes: verdicts}
	if len(feasible) == 0 {
		explanation.Message = round.message()
	}
	slices.SortStableFunc(explanation.Nodes, func(a, b NodeVerdict) int {
		if a.Feasible != b.Feasible {
			if a.Feasible {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Node, b.Node))
	})
	return explanation
}

func (p Profile) explainScores(pod *corev1.Pod, snapshot cluster.Snapshot, verdicts []NodeVerdict, feasible []int) {
	if len(feasible) == 0 {
		return
	}
	nodes := make([]*cluster.Node, len(feasible))
	for i, v := range feasible {
		nodes[i] = snapshot.Nodes[v]
	}
	for _, s := range p.Scores {
		ratings := s.Of(pod, snapshot, nodes)
		for i, v := range feasible {
			verdicts[v].Scores = append(verdicts[v].Scores, ScoreVerdict{s.Name, ratings[i], s.Weight})
			verdicts[v].Score += s.Weight * ratings[i]
		}
	}
}
