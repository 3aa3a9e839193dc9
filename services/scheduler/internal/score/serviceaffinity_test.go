package score

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/kin"
)

func TestServiceAffinity(t *testing.T) {
	t.Parallel()
	cache := cluster.NewCache()
	cache.ChangeKin(selectors) // a Service of the app api
	for _, n := range []*corev1.Node{newNode("a1", "a"), newNode("a2", "a"), newNode("b1", "b"), newNode("none", "")} {
		cache.SetNode(n)
	}
	for _, at := range []string{"api-1@a1", "api-2@a2", "api-3@a2", "api-4@b1", "web-1@b1"} {
		cache.SetPod(newPod(at))
	}
	s := cache.Snapshot()
	zone, host := corev1.LabelTopologyZone, corev1.LabelHostname
	for _, tt := range []struct {
		name string
		keys []string
		pod  string
		want string
	}{
		{"no labels", nil, "api-9", "[0 0 0 0]"},
		{"one label", []string{zone}, "api-9", "[25 25 75 0]"},
		{"two share", []string{zone, host}, "api-9", "[50 37 75 50]"},
		{"of no Service", []string{zone}, "web-9", "[100 100 100 0]"},
	} {
		if got := fmt.Sprint(ServiceAffinity(tt.keys).Of(newPod(tt.pod), s, s.Nodes)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	shared := ServiceAffinity([]string{zone}).Share(newPod("api-9"), s, s.Nodes)
	shared.Place(2)
	shared.Leave(0)
	ratings := make([]int64, 4)
	if shared.Rate(ratings); fmt.Sprint(ratings) != "[50 50 50 0]" {
		t.Errorf("after a placement: %d", ratings)
	}
	if got := (kin.View{}).Service(newPod("api-9")); got != nil {
		t.Errorf("a Service of nobody: %v", got)
	}
}
