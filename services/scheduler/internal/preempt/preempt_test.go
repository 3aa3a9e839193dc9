package preempt

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"howdah.dev/services/scheduler/internal/cluster"
)

var now = time.Unix(10_000, 0)

// pod is written as name:priority:cpu[:minutes since it started].
func pod(text string) *corev1.Pod {
	parts := strings.Split(text, ":")
	priority, _ := strconv.Atoi(parts[1])
	value := int32(priority)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: parts[0], UID: types.UID(parts[0]), Labels: map[string]string{"app": parts[0][:1]}},
		Spec: corev1.PodSpec{Priority: &value, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(parts[2])}},
		}}},
	}
	if len(parts) > 3 {
		minutes, _ := strconv.Atoi(parts[3])
		p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Duration(minutes) * time.Minute)}
	}
	return p
}

// nodes are written as name:cpu followed by its pods.
func nodes(lines ...string) []*cluster.Node {
	cache := cluster.NewCache()
	for _, line := range lines {
		words := strings.Fields(line)
		name, cpu, _ := strings.Cut(words[0], ":")
		cache.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}})
		for _, text := range words[1:] {
			p := pod(text)
			p.Spec.NodeName = name
			cache.SetPod(p)
		}
	}
	return cache.Snapshot().Nodes
}

// room is a trial of CPU alone.
type room struct{ milli int64 }

func (r room) Resolvable(n *cluster.Node) bool { return r.milli <= n.Allocatable.MilliCPU }

func (r room) Refusals(n *cluster.Node) []string {
	if n.Requested.MilliCPU+r.milli > n.Allocatable.MilliCPU {
		return []string{"Insufficient cpu"}
	}
	return nil
}

func budgetOf(app string, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{}},
	}
	for _, name := range disrupted {
		b.Status.DisruptedPods[name] = metav1.Time{}
	}
	return b
}

func choose(preemptor string, nodes []*cluster.Node, budgets ...*policyv1.PodDisruptionBudget) (*Candidate, map[string]int) {
	p := pod(preemptor)
	return Choose(p, nodes, NewBudgets(budgets), room{cluster.Requests(p).MilliCPU}, Default, func(int) int { return 0 }, now)
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod     string
		nodes   []string
		budgets []*policyv1.PodDisruptionBudget
		want    string // node and victims
	}{
		"the lower one":                 {"p:10:1", []string{"a:2 x:5:1 y:10:1"}, nil, "a x"},
		"the important stay":            {"p:10:2", []string{"a:4 x:1:1 y:2:1 z:3:2"}, nil, "a y x"},
		"an important one that is big":  {"p:4:500m", []string{"a:1 a1:1:200m b1:2:300m c1:3:450m"}, nil, "a b1 a1"},
		"what is small enough returns":  {"p:10:2", []string{"a:3 x:9:2 y:1:1"}, nil, "a x"},
		"of equals the older stays":     {"p:10:1", []string{"a:2 x:1:1:5 y:1:1:9"}, nil, "a x"},
		"fewest violations":             {"p:10:1", []string{"a:1 x:1:1", "b:1 y:9:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 0)}, "b y"},
		"lowest highest priority":       {"p:10:2", []string{"a:2 x:5:1 y:1:1", "b:2 z:4:1 w:4:1"}, nil, "b z w"},
		"lowest sum":                    {"p:10:2", []string{"a:2 x:5:1 y:4:1", "b:2 z:5:1 w:1:1"}, nil, "b z w"},
		"fewest of a negative priority": {"p:10:2", []string{"a:2 x:-5:1 y:-5:1", "b:2 z:-5:2"}, nil, "b z"},
		"latest start":                  {"p:10:1", []string{"a:1 x:5:1:60", "b:1 y:5:1:10", "c:1 z:5:1:20"}, nil, "b y"},
		"not started is latest":         {"p:10:1", []string{"a:1 x:5:1:60", "b:1 y:5:1"}, nil, "b y"},
		"budgets save the protected":    {"p:10:1", []string{"a:2 x:1:1 y:9:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 0)}, "a y"},
		"a budget with something left":  {"p:10:1", []string{"a:2 x:1:1 y:9:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 1)}, "a x"},
		"counted in its budget already": {"p:10:1", []string{"a:2 x:1:1 y:9:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 0, "x")}, "a x"},
		"the second exceeds the budget": {"p:10:1", []string{"a:3 x1:5:1 x2:4:1 y:6:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 1)}, "a x1"},
		"exceeded, if it must be":       {"p:10:2", []string{"a:2 x:1:1 y:9:1"}, []*policyv1.PodDisruptionBudget{budgetOf("x", 0)}, "a y x"},
	} {
		best, reasons := choose(test.pod, nodes(test.nodes...), test.budgets...)
		if best == nil {
			t.Errorf("%s: none, because of %v", name, reasons)
			continue
		}
		got := []string{best.Node}
		for _, v := range best.Victims {
			got = append(got, v.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

func TestChooseNone(t *testing.T) {
	t.Parallel()
	best, reasons := choose("p:10:2", nodes("small:1 a:1:1", "equal:2 b:10:2", "both:2 c:10:1 d:1:1", "other:2 e:11:2"))
	want := map[string]int{NotHelpful: 1, noVictims: 2, "Insufficient cpu": 1}
	if best != nil || !cmp.Equal(reasons, want) {
		t.Errorf("%v, %v; want %v", best, reasons, want)
	}
}

// TestChoicesAreNeeded: at random, the pod fits without the victims, none of them outranks it, and no victim could stay.
func TestChoicesAreNeeded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 500 {
		var lines []string
		for n := range 5 {
			line := "n" + strconv.Itoa(n) + ":8"
			for p := range 6 {
				line += " " + string(rune('a'+p)) + strconv.Itoa(n) + ":" + strconv.Itoa(rng.IntN(10)) + ":" + strconv.Itoa(1+rng.IntN(2)) + ":" + strconv.Itoa(rng.IntN(99))
			}
			lines = append(lines, line)
		}
		all := nodes(lines...)
		p := pod("p:6:" + strconv.Itoa(1+rng.IntN(8)))
		trial := room{cluster.Requests(p).MilliCPU}
		best, _ := Choose(p, all, NewBudgets([]*policyv1.PodDisruptionBudget{budgetOf("a", 0), budgetOf("b", 1)}), trial, Default, rng.IntN, now)
		if best == nil {
			continue
		}
		found++
		n := cluster.Snapshot{Nodes: all}.Node(best.Node)
		for _, v := range best.Victims {
			if scheduling.PodPriority(v) >= 6 {
				t.Fatalf("%s outranks the pod", v.Name)
			}
			n = n.Without(v.UID, cluster.DemandOf(v))
		}
		if len(trial.Refusals(n)) > 0 {
			t.Fatalf("the pod does not fit on %s without %d victims", n.Name, len(best.Victims))
		}
		for _, v := range best.Victims {
			if len(trial.Refusals(n.With(v, cluster.DemandOf(v)))) == 0 {
				t.Fatalf("%s could stay", v.Name)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d of 500 were decided", found)
	}
}

// TestChooseEnough has five nodes of which each is better than the ones before.
func TestChooseEnough(t *testing.T) {
	t.Parallel()
	p, all := pod("p:10:1"), nodes("a:1 v:5:1", "b:1 w:4:1", "c:1 x:3:1", "d:1 y:2:1", "e:1 z:1:1")
	for enough, want := range map[Enough]string{
		Default: "e", {Percent: 0, Nodes: 1}: "a", {Percent: 0, Nodes: 3}: "c", {Percent: 40, Nodes: 0}: "b", {Percent: 40, Nodes: 4}: "d", {Percent: 100, Nodes: 0}: "e",
	} {
		if best, _ := Choose(p, all, nil, room{1000}, enough, func(int) int { return 0 }, now); best == nil || best.Node != want {
			t.Errorf("%+v: %v, want node %s", enough, best, want)
		}
	}
	budgets := NewBudgets([]*policyv1.PodDisruptionBudget{budgetOf("v", 0), budgetOf("w", 0)})
	if best, _ := Choose(p, all, budgets, room{1000}, Enough{Nodes: 1}, func(int) int { return 0 }, now); best == nil || best.Node != "c" {
		t.Errorf("%v, want the first node that exceeds no budget", best)
	}
}
