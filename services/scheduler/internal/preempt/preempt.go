// Package preempt chooses which pods of lower priority make room for one that no node can take. It is pure.
package preempt

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// Trial answers for the pod that wants room.
type Trial interface {
	// Resolvable reports whether fewer pods on a node, which refuses the pod, may let it in.
	Resolvable(n *cluster.Node) bool
	// Refusals says why a node would refuse the pod if it were like n; none where it would not.
	Refusals(n *cluster.Node) []string
}

// Candidate is a node, and what has to go there for the pod to fit.
type Candidate struct {
	Node       string
	Victims    []*corev1.Pod // the most important one first
	Violations int           // victims whose end exceeds a PodDisruptionBudget
}

// The reasons for nodes that are no candidates, in Kubernetes' words. Others are those of the filters.
const (
	NotHelpful = "Preemption is not helpful for scheduling"
	noVictims  = "No preemption victims found for incoming pod"
)

// Enough is how many candidates are looked for: a share of the nodes, or a number of them if that is more. The search goes on until one of the
// candidates exceeds no budget.
type Enough struct {
	Percent, Nodes int
}

// Default is Kubernetes'.
var Default = Enough{Percent: 10, Nodes: 100}

// Choose returns the best candidate among the nodes; without one, the counts of nodes by reason. Where the search begins, of n nodes, is
// start's to say. Pods that have not started count as started now.
func Choose(pod *corev1.Pod, nodes []*cluster.Node, budgets Budgets, trial Trial, enough Enough, start func(n int) int, now time.Time) (*Candidate, map[string]int) {
	reasons := map[string]int{}
	var potential []*cluster.Node
	for _, n := range nodes {
		if trial.Resolvable(n) {
			potential = append(potential, n)
		} else {
			reasons[NotHelpful]++
		}
	}
	if len(potential) == 0 {
		return nil, reasons
	}
	limit := max(enough.Nodes, len(potential)*enough.Percent/100)
	first := start(len(potential))
	var candidates []Candidate
	compliant := false
	for i := range potential {
		n := potential[(first+i)%len(potential)]
		c, refusals := candidate(pod, n, budgets, trial, now)
		for _, r := range refusals {
			reasons[r]++
		}
		if len(c.Victims) == 0 {
			continue
		}
		candidates = append(candidates, c)
		if compliant = compliant || c.Violations == 0; compliant && len(candidates) >= limit {
			break
		}
	}
	if len(candidates) == 0 {
		return nil, reasons
	}
	best := slices.MinFunc(candidates, func(a, b Candidate) int { return compare(a, b, now) })
	return &best, nil
}

// candidate finds the fewest pods of a node that have to go. It begins without all that may go, and lets back those that the pod can do with:
// first those whose end would exceed a budget, the more important ones first. The refusals say why the node is no candidate.
func candidate(pod *corev1.Pod, n *cluster.Node, budgets Budgets, trial Trial, now time.Time) (Candidate, []string) {
	c := Candidate{Node: n.Name}
	lower := Lower(pod, n)
	if len(lower) == 0 {
		return c, []string{noVictims}
	}
	for _, p := range lower {
		n = n.Without(p.UID, cluster.DemandOf(p))
	}
	if refusals := trial.Refusals(n); len(refusals) > 0 {
		return c, refusals
	}
	byImportance := func(a, b *corev1.Pod) int { return important(a, b, now) }
	slices.SortStableFunc(lower, byImportance)
	exceeding, others := budgets.split(lower)
	for i, p := range slices.Concat(exceeding, others) {
		if with := n.With(p, cluster.DemandOf(p)); len(trial.Refusals(with)) == 0 {
			n = with
			continue
		}
		c.Victims = append(c.Victims, p)
		if i < len(exceeding) {
			c.Violations++
		}
	}
	slices.SortStableFunc(c.Victims, byImportance)
	return c, nil
}

// Lower returns the pods of a node that may go for the sake of this one.
func Lower(pod *corev1.Pod, n *cluster.Node) []*corev1.Pod {
	var lower []*corev1.Pod
	for _, p := range n.Pods {
		if scheduling.PodPriority(p) < scheduling.PodPriority(pod) {
			lower = append(lower, p)
		}
	}
	return lower
}

// important orders pods by importance: by priority, then those that started earlier.
func important(a, b *corev1.Pod, now time.Time) int {
	return cmp.Or(cmp.Compare(scheduling.PodPriority(b), scheduling.PodPriority(a)), started(a, now).Compare(started(b, now)))
}

func started(p *corev1.Pod, now time.Time) time.Time {
	if p.Status.StartTime == nil {
		return now
	}
	return p.Status.StartTime.Time
}

// compare orders candidates, the best first: by the fewest violations of budgets, the lowest priority of the most important victim, the lowest
// sum of priorities, the fewest victims, and the latest start of the earliest among the most important victims.
func compare(a, b Candidate, now time.Time) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(scheduling.PodPriority(a.Victims[0]), scheduling.PodPriority(b.Victims[0])),
		cmp.Compare(sum(a.Victims), sum(b.Victims)),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		// The first victim is, of those with its priority, the one that started first.
		started(b.Victims[0], now).Compare(started(a.Victims[0], now)),
	)
}

// sum adds up priorities, each raised above zero: else more victims of a negative priority would be better than fewer.
func sum(pods []*corev1.Pod) int64 {
	var total int64
	for _, p := range pods {
		total += int64(scheduling.PodPriority(p)) - math.MinInt32
	}
	return total
}
