package cycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/score"
)

// ticking is a clock by which a second passes between two looks.
func ticking() func() time.Time {
	now := time.Unix(1000, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// points are the extension points of a cycle, with how they came out.
func points(timing Timing) (told []string) {
	for _, t := range timing.Took {
		told = append(told, fmt.Sprintf("%s %s %v", t.Point, t.Code, t.Time))
	}
	return told
}

func TestTimingOfExtensionPoints(t *testing.T) {
	t.Parallel()
	nowhere := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}},
			}}},
		}}}
	}
	filters, scores := []string{"preFilter Success 1s", "filter Success 1s"}, []string{"preScore Success 1s", "score Success 1s"}
	tests := map[string]struct {
		nodes int
		pods  []*corev1.Pod
		want  [][]string
	}{
		"a choice":                 {2, []*corev1.Pod{pod("1", "1"), pod("2", "1")}, [][]string{filters, scores}},
		"one node":                 {1, []*corev1.Pod{pod("1", "1")}, [][]string{filters}},
		"no room":                  {2, []*corev1.Pod{pod("1", "9")}, [][]string{filters}},
		"no node, whatever it is":  {2, []*corev1.Pod{pod("1", "1", nowhere)}, [][]string{{"preFilter UnschedulableAndUnresolvable 1s"}}},
		"a round for each of them": {3, []*corev1.Pod{pod("1", "1", apart), pod("2", "1", apart)}, [][]string{filters, scores, filters, scores}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := cluster.NewCache()
			for i := range tt.nodes {
				cache.SetNode(node(fmt.Sprint("n", i), "4", "8Gi"))
			}
			_, timing := Default().Place(tt.pods, cache.Snapshot(), func(n int) int { return n - 1 }, ticking())
			var want []string
			for _, w := range tt.want {
				want = append(want, w...)
			}
			if diff := cmp.Diff(want, points(timing)); diff != "" {
				t.Error(diff)
			}
			if len(timing.Ran) > 0 {
				t.Errorf("plugins are timed in a cycle that was not chosen: %v", timing.Ran)
			}
		})
	}
}

// TestTimingOfPlugins has three nodes, of which one lacks room and one is cordoned, and two pods.
func TestTimingOfPlugins(t *testing.T) {
	t.Parallel()
	cache := cluster.NewCache()
	cache.SetNode(node("cordoned", "4", "8Gi", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	cache.SetNode(node("large", "4", "8Gi"))
	cache.SetNode(node("medium", "3", "8Gi"))
	cache.SetNode(node("small", "1", "8Gi"))
	profile := Profile{
		Filters: []filter.Filter{filter.NodeUnschedulable, filter.NodeAffinity(nil), filter.NodeResourcesFit(nil)},
		Scores:  []score.Score{score.ImageLocality, plugin.Scores()[2]},
	}
	if got := profile.Scores[1].Name; got != "NodeResourcesFit" {
		t.Fatalf("the second score is %s", got)
	}
	pods := []*corev1.Pod{pod("1", "2"), pod("2", "2")}
	_, timing := profile.Place(pods, cache.Snapshot(), func(int) int { return 0 }, ticking())
	want := Asked{
		PreFilter: []int{1, 0, 1}, // the pods have no affinity
		Filter:    []int{5, 0, 4}, // four nodes, and that of the first pod again
		PreScore:  []int{1, 1},
		Score:     []int{2, 3}, // two nodes, and by what is on it that of the first pod again
	}
	if diff := cmp.Diff(want, timing.Asked); diff != "" {
		t.Error(diff)
	}
	ran := map[string]int{}
	for _, r := range timing.Ran {
		ran[fmt.Sprintf("%s %s %s", r.Plugin, r.Point, r.Code)]++
		if r.Time != time.Second {
			t.Errorf("%v", r)
		}
	}
	if diff := cmp.Diff(map[string]int{
		"NodeUnschedulable preFilter Success": 1, "NodeAffinity preFilter Skip": 1, "NodeResourcesFit preFilter Success": 1,
		"NodeUnschedulable filter UnschedulableAndUnresolvable": 1, "NodeUnschedulable filter Success": 3,
		"NodeResourcesFit filter Success": 2, "NodeResourcesFit filter UnschedulableAndUnresolvable": 1,
		"ImageLocality preScore Success": 1, "ImageLocality score Success": 2, "NodeResourcesFit preScore Success": 1, "NodeResourcesFit score Success": 2,
	}, ran); diff != "" {
		t.Error(diff)
	}
}
