package daemonset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/controllers/internal/pod"
)

func TestRoll(t *testing.T) {
	t.Parallel()
	noSchedule := taint("x", corev1.TaintEffectNoSchedule)
	everywhere := func(n int, change ...func(*corev1.Pod)) []*corev1.Pod {
		var all []*corev1.Pod
		for i := range n {
			all = append(all, newPod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), change...))
		}
		return all
	}
	for _, tt := range []struct {
		name           string
		set            func(*appsv1.DaemonSet)
		nodes          []*corev1.Node
		pods           []*corev1.Pod
		create, remove string
	}{
		{"nothing to do", rolling("1", "0"), nodes(3), everywhere(3), "", ""},
		{"on delete", onDelete, nodes(3), everywhere(3, old), "", ""},
		{"one at a time", rolling("1", "0"), nodes(3), everywhere(3, old), "", "p0"},
		{"half at a time", rolling("50%", "0"), nodes(5), everywhere(5, old), "", "p0 p1 p2"},
		{"never none at a time", rolling("0", "0"), nodes(3), everywhere(3, old), "", "p0"},
		{"not while one is ending", rolling("1", "0"), nodes(3), append(everywhere(2, old), newPod("p2", "n2", going)), "", ""},
		{"not while a new one is not ready", rolling("1", "0"), nodes(3), append(everywhere(2, old), newPod("p2", "n2", unready)), "", ""},
		{"two may be missing, one is", rolling("2", "0"), nodes(3), append(everywhere(2, old), newPod("p2", "n2", unready)), "", "p0"},
		{"old ones that do nothing go at once", rolling("1", "0"), nodes(3), everywhere(3, old, unready), "", "p0 p1 p2"},
		{"and count as missing", rolling("1", "0"), nodes(3), append(everywhere(2, old), newPod("p2", "n2", old, unready)), "", "p2"},
		{"first the missing pods", rolling("3", "0"), nodes(3), everywhere(2, old), "n2", ""},
		{"known by the generation", rolling("1", "0"), nodes(2), everywhere(2, old, func(p *corev1.Pod) { p.Labels[generationLabel] = "2" }), "", ""},
		{"of another generation", rolling("1", "0"), nodes(2), everywhere(2, old, func(p *corev1.Pod) { p.Labels[generationLabel] = "1" }), "", "p0"},

		{"surge by one", rolling("0", "1"), nodes(3), everywhere(3, old), "n0", ""},
		{"surge by a percentage", rolling("0", "34%"), nodes(3), everywhere(3, old), "n0 n1", ""},
		{"surged already", rolling("0", "1"), nodes(3), append(everywhere(3, old), newPod("q0", "n0", unready)), "", ""},
		{"old ones that do nothing are replaced at once", rolling("0", "1"), nodes(3), everywhere(3, old, unready), "n0 n1 n2", ""},
		{"a node not to be used any more", rolling("0", "1"), []*corev1.Node{newNode("n0", noSchedule), newNode("n1")},
			[]*corev1.Pod{newPod("p0", "n0", old), newPod("p1", "n1", old)}, "n1", "p0"},
		{"such a node while others are missing", rolling("0", "1"), []*corev1.Node{newNode("n0", noSchedule), newNode("n1")},
			[]*corev1.Pod{newPod("p0", "n0", old), newPod("p1", "n1", unready)}, "", ""},
		{"such a node with a pod that does nothing", rolling("0", "1"), []*corev1.Node{newNode("n0", noSchedule), newNode("n1")},
			[]*corev1.Pod{newPod("p0", "n0", old, unready), newPod("p1", "n1")}, "", "p0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, Decide(newSet(tt.set), Observed{Nodes: tt.nodes, Pods: tt.pods, Hash: current, Settled: true}, noon), tt.create, tt.remove)
		})
	}
}

func TestRollWaitsForMinReadySeconds(t *testing.T) {
	t.Parallel()
	ds := newSet()
	ds.Spec.MinReadySeconds = 30
	seen := Observed{Nodes: nodes(2), Hash: current, Settled: true, Pods: []*corev1.Pod{newPod("a", "n0", readyFor(10*time.Second)), newPod("b", "n1", old)}}
	p := Decide(ds, seen, noon)
	check(t, p, "", "")
	if p.After != 20*time.Second {
		t.Errorf("again after %v, want 20s", p.After)
	}
	check(t, Decide(ds, seen, noon.Add(20*time.Second)), "", "b")
}

// world is a cluster whose pods become ready, fail and end when they like.
type world struct {
	rng   *rand.Rand
	ds    *appsv1.DaemonSet
	nodes []*corev1.Node
	pods  []*corev1.Pod
	now   time.Time
	made  int
}

// step carries out a plan, and lets some pods go on.
func (w *world) step(p Plan) {
	for _, node := range p.Create {
		w.made++
		w.pods = append(w.pods, newPod(fmt.Sprintf("new%d", w.made), node, unbound, func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(w.now) }))
	}
	for _, o := range p.Delete {
		going(o)
	}
	w.now = w.now.Add(time.Second)
	var left []*corev1.Pod
	for _, o := range w.pods {
		switch {
		case o.DeletionTimestamp != nil && (o.Spec.NodeName == "" || w.rng.IntN(3) == 0):
			continue
		case o.Spec.NodeName == "" && w.rng.IntN(2) == 0:
			o.Spec.NodeName = target(o)
			o.Status.Phase = corev1.PodRunning
		case o.Status.Phase == corev1.PodRunning && !pod.Ready(o) && w.rng.IntN(2) == 0:
			o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
		case o.DeletionTimestamp == nil && o.Labels[hashLabel] == current && w.rng.IntN(30) == 0:
			failed(o)
		}
		left = append(left, o)
	}
	w.pods = left
}

// TestRollOutKeepsItsBounds rolls sets of random size through random events: what may not be missing never goes by the plan's doing,
// no node has more pods than it may, and the roll-out comes to its end.
func TestRollOutKeepsItsBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(8)
		bounds := []func(*appsv1.DaemonSet){rolling("1", "0"), rolling("2", "0"), rolling("40%", "0"), rolling("0", "1"), rolling("0", "50%"), rolling("0", "3")}
		w := &world{rng: rng, ds: newSet(bounds[rng.IntN(len(bounds))]), nodes: nodes(n), now: noon}
		w.ds.Spec.MinReadySeconds = int32(rng.IntN(3))
		for i := range n {
			w.pods = append(w.pods, newPod(fmt.Sprintf("old%d", i), fmt.Sprintf("n%d", i), old))
		}
		done := false
		for range 1000 {
			p := Decide(w.ds, Observed{Nodes: w.nodes, Pods: w.pods, Hash: current, Settled: true}, w.now)
			w.checkBounds(t, p)
			if done = p.Status.UpdatedNumberScheduled == int32(n) && p.Status.NumberUnavailable == 0 && len(w.pods) == n; done {
				break
			}
			w.step(p)
		}
		if !done {
			t.Errorf("seed %d: the roll-out does not end", seed)
		}
	}
}

func (w *world) checkBounds(t *testing.T, p Plan) {
	t.Helper()
	d := newDaemons(w.ds, Observed{Nodes: w.nodes, Pods: w.pods, Hash: current}, w.now)
	surge, unavailable := d.bounds()
	goes := map[string]bool{}
	for _, o := range p.Delete {
		goes[o.Name] = true
	}
	served, sacrificed := 0, false
	for _, s := range d.sites {
		before, after, active := false, false, 0
		for _, o := range s.pods {
			if o.DeletionTimestamp != nil || pod.Terminal(o) {
				continue
			}
			before = before || d.available(o)
			if !goes[o.Name] {
				after = after || d.available(o)
				active++
			}
		}
		for _, node := range p.Create {
			if node == s.name {
				active++
			}
		}
		if after {
			served++
		}
		sacrificed = sacrificed || before && !after
		if limit := 1 + min(surge, 1); active > limit {
			t.Errorf("%d pods on node %s, at most %d are allowed", active, s.name, limit)
		}
	}
	if sacrificed && d.desired-served > unavailable {
		t.Errorf("%d of %d nodes are left without an available pod, %d may be", d.desired-served, d.desired, unavailable)
	}
	if surge > 0 && sacrificed {
		t.Error("a surging set takes an available pod away")
	}
}
