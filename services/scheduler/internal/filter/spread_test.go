package filter

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/scheduler/internal/cluster"
)

// TestWhereASpreadLetsAPod has two pods on a1, in zone a,, one on b1 and none on c1, which is in no rack.
func TestWhereASpreadLetsAPod(t *testing.T) {
	t.Parallel()
	cache := cluster.NewCache()
	for name, at := range map[string]map[string]string{"a1": {"zone": "a", "rack": "1"}, "b1": {"zone": "b", "rack": "2"}, "c1": {"zone": "c"}} {
		n := newNode("8", "8Gi")
		n.Name, n.Labels = name, at
		cache.SetNode(n)
	}
	like := func(at string) *corev1.Pod {
		_, node, _ := strings.Cut(at, "@")
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(at), Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: node}}
	}
	for _, at := range []string{"1@a1", "2@a1", "3@b1"} {
		cache.SetPod(like(at))
	}
	web, all := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, &metav1.LabelSelector{}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		keys     []string
		want     string
	}{
		"to the emptiest zone":                         {web, []string{"zone"}, "c1"},
		"a node without a rack is in no zone either":   {web, []string{"zone", "rack"}, "b1"},
		"anywhere, where everything is selected":       {all, []string{"zone"}, "a1 b1 c1"},
		"anywhere in a rack, where everything is, too": {all, []string{"zone", "rack"}, "a1 b1"},
	} {
		pod := like("new")
		for _, key := range c.keys {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: c.selector,
			})
		}
		snapshot := cache.Snapshot()
		check := spreading.Prepare(pod, snapshot)
		var passed []string
		for _, n := range snapshot.Nodes {
			if check.Check(n) {
				passed = append(passed, n.Name)
			}
		}
		if got := strings.Join(passed, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
