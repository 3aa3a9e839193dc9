package daemonset

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// check compares what a plan creates and deletes: names of nodes and of pods, apart by spaces.
func check(t *testing.T, p Plan, create, remove string) {
	t.Helper()
	var deleted []string
	for _, o := range p.Delete {
		deleted = append(deleted, o.Name)
	}
	slices.Sort(deleted)
	if got := strings.Join(p.Create, " "); got != create {
		t.Errorf("pods for %q, want %q", got, create)
	}
	if got := strings.Join(deleted, " "); got != remove {
		t.Errorf("deleted %q, want %q", got, remove)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	surging := rolling("0", "1")
	noSchedule, noExecute := taint("x", corev1.TaintEffectNoSchedule), taint("x", corev1.TaintEffectNoExecute)
	for _, tt := range []struct {
		name           string
		set            func(*appsv1.DaemonSet)
		nodes          []*corev1.Node
		pods           []*corev1.Pod
		create, remove string
	}{
		{"a pod for every node", nil, nodes(3), nil, "n0 n1 n2", ""},
		{"a pod for the node without one", nil, nodes(3), []*corev1.Pod{newPod("a", "n0"), newPod("b", "n2", unbound)}, "n1", ""},
		{"no pod while the last one is ending", nil, nodes(1), []*corev1.Pod{newPod("a", "n0", going)}, "", ""},
		{"a pod when the last one has ended", nil, nodes(1), []*corev1.Pod{newPod("a", "n0", going, failed)}, "n0", ""},
		{"none where it may only stay", nil, []*corev1.Node{newNode("n0", noSchedule)}, nil, "", ""},
		{"one stays", nil, []*corev1.Node{newNode("n0", noSchedule)}, []*corev1.Pod{newPod("a", "n0")}, "", ""},
		{"one must go", nil, []*corev1.Node{newNode("n0", noExecute)}, []*corev1.Pod{newPod("a", "n0"), newPod("b", "n0", going)}, "", "a"},
		{"an unbound one must go, too", nil, []*corev1.Node{newNode("n0", noExecute)}, []*corev1.Pod{newPod("a", "n0", unbound)}, "", "a"},
		{"a node is gone", nil, nil, []*corev1.Pod{newPod("a", "n0"), newPod("b", "n1", unbound), newPod("c", "n1", unbound, going)}, "", "b"},
		{"the oldest of several", onDelete, nodes(1), []*corev1.Pod{
			newPod("a", "n0", aged(time.Minute)), newPod("b", "n0", aged(time.Hour), unready), newPod("c", "n0", aged(2*time.Hour), unbound),
		}, "", "a c"},
		{"by name among equals", nil, nodes(1), []*corev1.Pod{newPod("b", "n0"), newPod("a", "n0")}, "", "b"},
		{"one that says no node", nil, nodes(1), []*corev1.Pod{newPod("a", "", func(p *corev1.Pod) { p.Spec.Affinity = nil })}, "n0", ""},
		{"failed and succeeded ones", nil, nodes(2), []*corev1.Pod{newPod("a", "n0", failed), newPod("b", "n1", succeeded)}, "", "a b"},
		{"a failed one beside a good one", nil, nodes(1), []*corev1.Pod{newPod("a", "n0", failed), newPod("b", "n0")}, "", "a"},

		{"surging, no wait for the end", surging, nodes(1), []*corev1.Pod{newPod("a", "n0", going)}, "n0", ""},
		{"surging, a failed one", surging, nodes(1), []*corev1.Pod{newPod("a", "n0", failed)}, "n0", "a"},
		{"surging, the new one is not ready", surging, nodes(1), []*corev1.Pod{newPod("a", "n0", old), newPod("b", "n0", unready)}, "", ""},
		{"surging, the new one is ready", surging, nodes(1), []*corev1.Pod{newPod("a", "n0", old), newPod("b", "n0")}, "", "a"},
		{"surging, neither is ready", surging, nodes(1), []*corev1.Pod{newPod("a", "n0", old, unready), newPod("b", "n0", unready)}, "", "a"},
		{"surging, too many", surging, nodes(1), []*corev1.Pod{
			newPod("a", "n0", old), newPod("b", "n0", unready), newPod("c", "n0", old, aged(time.Second)), newPod("d", "n0", unready, aged(time.Second)),
		}, "", "c d"},
		{"surging, where it may only stay", surging, []*corev1.Node{newNode("n0", noSchedule)}, []*corev1.Pod{newPod("a", "n0", going)}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ds := newSet()
			if tt.set != nil {
				tt.set(ds)
			}
			check(t, Decide(ds, Observed{Nodes: tt.nodes, Pods: tt.pods, Hash: current, Settled: true}, noon), tt.create, tt.remove)
		})
	}
}

func TestDecideWaitsForItsOwnWrites(t *testing.T) {
	t.Parallel()
	p := Decide(newSet(), Observed{Nodes: nodes(2), Pods: []*corev1.Pod{newPod("a", "n0", failed)}, Hash: current}, noon)
	check(t, p, "", "")
	if p.Status.ObservedGeneration != 0 || p.Status.DesiredNumberScheduled != 2 || len(p.Events) > 0 {
		t.Errorf("plan %+v", p)
	}
}

func TestFailedPods(t *testing.T) {
	t.Parallel()
	seen := Observed{
		Nodes: nodes(3), Hash: current, Settled: true,
		Pods:  []*corev1.Pod{newPod("a", "n0", failed), newPod("b", "n1", failed), newPod("c", "n2", succeeded)},
		Waits: map[string]time.Duration{"n1": 4 * time.Second},
	}
	p := Decide(newSet(), seen, noon)
	check(t, p, "", "a c")
	if !slices.Equal(p.Failed, []string{"n0"}) || p.After != 4*time.Second {
		t.Errorf("failed on %v, again after %v", p.Failed, p.After)
	}
	want := []Event{
		{corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod default/a on node n0, will try to kill it"},
		{corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod default/c on node n2, will try to delete it"},
	}
	if !slices.Equal(p.Events, want) {
		t.Errorf("events %+v", p.Events)
	}

	// A surging set must not pile up pods that fail.
	seen.Pods = seen.Pods[1:2]
	seen.Nodes = seen.Nodes[1:2]
	check(t, Decide(newSet(rolling("0", "1")), seen, noon), "", "")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	noSchedule := taint("x", corev1.TaintEffectNoSchedule)
	seen := Observed{
		Nodes: append(nodes(6), newNode("t0", noSchedule), newNode("t1", noSchedule)),
		Pods: []*corev1.Pod{
			newPod("a", "n0"),
			newPod("b", "n1", unbound),
			newPod("c", "n2", old),
			newPod("d", "n3", readyFor(9*time.Second)),
			newPod("e", "n4", going),
			newPod("f", "n4", unready, aged(time.Second)),
			newPod("g", "t0"),
			newPod("h", "gone"),
		},
		Hash: current, Settled: true,
	}
	ds := newSet(onDelete)
	ds.Spec.MinReadySeconds = 10
	ds.Status.Conditions = []appsv1.DaemonSetCondition{{Type: "Mine"}}
	p := Decide(ds, seen, noon)
	s := p.Status
	if len(s.Conditions) != 1 {
		t.Error("the conditions are lost")
	}
	s.Conditions = nil
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 6, CurrentNumberScheduled: 5, NumberMisscheduled: 1, UpdatedNumberScheduled: 4,
		NumberReady: 4, NumberAvailable: 3, NumberUnavailable: 3, ObservedGeneration: 3,
	}
	if s.String() != want.String() {
		t.Errorf("status %+v, want %+v", s, want)
	}
	if p.After != time.Second {
		t.Errorf("again after %v, want 1s", p.After)
	}
}
