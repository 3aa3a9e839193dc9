package cycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/preempt"
)

// anew is a trial whose every question has all filters look at all nodes.
type anew struct{ Trial }

func (a anew) where(n *cluster.Node) *round {
	return newRound(a.round.profile, a.round.pod, a.round.snapshot.Replacing(n), nil)
}

func (a anew) Resolvable(n *cluster.Node) bool {
	refused, as := a.asked(n)
	return refused != nil && refused.Resolvable(as)
}

func (a anew) Refusals(n *cluster.Node) []string {
	refused, as := a.asked(n)
	if refused == nil {
		return nil
	}
	return slices.Clone(refused.Explain(as))
}

// asked is refusal of the round that was prepared for the node with those that it is kept for, and of the one that was prepared for it.
func (a anew) asked(n *cluster.Node) (refused interface {
	Explain(*cluster.Node) []string
	Resolvable(*cluster.Node) bool
}, as *cluster.Node) {
	if rivals := a.round.snapshot.Nominees[n.Name]; len(rivals) > 0 {
		crowded := n
		for _, rival := range rivals {
			crowded = crowded.With(rival.Pod, rival.Demand)
		}
		if c := refusing(a.where(crowded).checks, crowded); c != nil {
			return c.check, crowded
		}
	}
	if c := refusing(a.where(n).checks, n); c != nil {
		return c.check, n
	}
	return nil, n
}

var (
	apps  = []string{"a", "b", "c"}
	zones = []string{"x", "y", "z"}
)

func pick(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }

func selectorOf(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// constrained gives a pod random required affinities, and spreads where it is to have them.
func constrained(rng *rand.Rand, spreads bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = pick(rng, apps)
		keys := []string{"zone", corev1.LabelHostname}
		terms := func() (terms []corev1.PodAffinityTerm) {
			for range rng.IntN(3) {
				terms = append(terms, corev1.PodAffinityTerm{TopologyKey: pick(rng, keys), LabelSelector: selectorOf(pick(rng, apps))})
			}
			return terms
		}
		p.Spec.Affinity = &corev1.Affinity{}
		if rng.IntN(2) == 0 {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}
		}
		if rng.IntN(2) == 0 {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}
		}
		for spreads && rng.IntN(2) == 0 {
			c := corev1.TopologySpreadConstraint{
				TopologyKey: pick(rng, keys), MaxSkew: 1 + rng.Int32N(2), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selectorOf(pick(rng, apps)),
			}
			if rng.IntN(3) == 0 {
				c.MinDomains = ptr.To(1 + rng.Int32N(4))
			}
			if rng.IntN(3) == 0 {
				c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
			}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
}

// crowd is a random cluster, with nodes that are kept for pods.
func crowd(rng *rand.Rand, nodes, pods int) cluster.Snapshot {
	var all []*corev1.Node
	for i := range nodes {
		n := node(fmt.Sprint("n", i), "4", "16Gi", func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: n.Name}
			if rng.IntN(8) > 0 {
				n.Labels["zone"] = pick(rng, zones)
			}
			if rng.IntN(8) == 0 {
				tainted(corev1.TaintEffectNoSchedule)(n)
			}
		})
		all = append(all, n)
	}
	var placed []*corev1.Pod
	for i := range pods {
		change := []func(*corev1.Pod){priority(rng.Int32N(10)), onNode(fmt.Sprint("n", rng.IntN(nodes))), func(p *corev1.Pod) {
			p.UID, p.Labels["app"] = types.UID(p.Name), pick(rng, apps)
			if rng.IntN(8) == 0 {
				p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
		}}
		if rng.IntN(4) == 0 {
			change = append(change, constrained(rng, false))
		}
		placed = append(placed, pod(fmt.Sprint("p", i), "1", change...))
	}
	s := snapshot(all, placed...)
	s.Nominees = map[string][]cluster.Nominee{}
	for i := range rng.IntN(3) {
		rival := pod(fmt.Sprint("r", i), "1", priority(20), constrained(rng, false))
		rival.UID = types.UID(rival.Name)
		on := fmt.Sprint("n", rng.IntN(nodes))
		s.Nominees[on] = append(s.Nominees[on], cluster.Nominee{Pod: rival, Demand: cluster.DemandOf(rival)})
	}
	return s
}

// TestAlteredChecksAreThoseOfPrepare: whatever a node has lost and got, its verdict is that of filters that look at everything anew, and so is the
// choice of who has to go.
func TestAlteredChecksAreThoseOfPrepare(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	refusals, choices, across := 0, 0, 0
	for range 500 {
		s := crowd(rng, 2+rng.IntN(6), rng.IntN(30))
		p := pod("incoming", "2", priority(15), constrained(rng, true))
		p.UID = "incoming"
		trial := Default().Trial(p, s)
		slow := anew{trial}
		if trial.round.across {
			across++
		}
		for _, n := range s.Nodes {
			for range 4 {
				if len(n.Pods) > 0 && rng.IntN(2) == 0 {
					gone := n.Pods[rng.IntN(len(n.Pods))]
					n = n.Without(gone.UID, cluster.DemandOf(gone))
				} else {
					other := s.Nodes[rng.IntN(len(s.Nodes))]
					if len(other.Pods) > 0 {
						come := *other.Pods[0]
						come.UID += "-again"
						n = n.With(&come, cluster.DemandOf(&come))
					}
				}
				got, want := trial.Refusals(n), slow.Refusals(n)
				if !slices.Equal(got, want) {
					t.Fatalf("%s with %d pods: %v, want %v", n.Name, len(n.Pods), got, want)
				}
				if len(want) > 0 {
					refusals++
				}
			}
		}
		zero := func(int) int { return 0 }
		got, gotReasons := preempt.Choose(p, s.Nodes, nil, trial, preempt.Default, zero, time.Unix(1, 0))
		want, wantReasons := preempt.Choose(p, s.Nodes, nil, slow, preempt.Default, zero, time.Unix(1, 0))
		if fmt.Sprint(told(got), gotReasons) != fmt.Sprint(told(want), wantReasons) {
			t.Fatalf("chosen is %v (%v), want %v (%v)", told(got), gotReasons, told(want), wantReasons)
		}
		if want != nil {
			choices++
		}
	}
	if refusals < 500 || choices < 50 || across < 200 {
		t.Errorf("%d refusals, %d choices, %d looked across nodes: too few to prove anything", refusals, choices, across)
	}
}

func told(c *preempt.Candidate) (s []string) {
	if c == nil {
		return nil
	}
	s = append(s, c.Node, fmt.Sprint(c.Violations))
	for _, v := range c.Victims {
		s = append(s, v.Name)
	}
	return s
}

// BenchmarkPreempt chooses who has to go for a pod with affinity, anti-affinity and a spread, on nodes with 10 pods each: with filters that
// look at everything anew in each trial, and with altered ones. The former take minutes on 1,000 nodes.
func BenchmarkPreempt(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		s, p := full(nodes)
		if nodes == 100 {
			b.Run("anew/nodes=100", func(b *testing.B) { choose(b, p, s, func(t Trial) preempt.Trial { return anew{t} }) })
		}
		b.Run(fmt.Sprint("altered/nodes=", nodes), func(b *testing.B) { choose(b, p, s, func(t Trial) preempt.Trial { return t }) })
	}
}

func choose(b *testing.B, p *corev1.Pod, s cluster.Snapshot, of func(Trial) preempt.Trial) {
	zero := func(int) int { return 0 }
	for b.Loop() {
		if best, reasons := preempt.Choose(p, s.Nodes, nil, of(Default().Trial(p, s)), preempt.Default, zero, time.Unix(1, 0)); best == nil || len(best.Victims) != 2 {
			b.Fatal(best, reasons)
		}
	}
}

// full is a cluster without room, and a pod that outranks what is on it.
func full(nodes int) (cluster.Snapshot, *corev1.Pod) {
	const each = 10
	var (
		all    []*corev1.Node
		placed []*corev1.Pod
	)
	for i := range nodes {
		all = append(all, node(fmt.Sprintf("n%04d", i), "10", "16Gi", func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelHostname: n.Name, "zone": zones[i%len(zones)]}
		}))
		for j := range each {
			p := pod(fmt.Sprint("p", i, "-", j), "1", priority(1), onNode(fmt.Sprintf("n%04d", i)), func(p *corev1.Pod) {
				p.UID, p.Labels["app"] = types.UID(p.Name), apps[j%2]
			})
			placed = append(placed, p)
		}
	}
	p := pod("incoming", "2", priority(15), func(p *corev1.Pod) {
		p.UID, p.Labels["app"] = "incoming", "a"
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: selectorOf("b")},
			}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: selectorOf("c")},
			}},
		}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{TopologyKey: "zone", MaxSkew: 5, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selectorOf("a")},
		}
	})
	return snapshot(all, placed...), p
}
