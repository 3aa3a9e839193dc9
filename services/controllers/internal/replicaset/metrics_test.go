package replicaset

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAges(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	aged := func(age time.Duration, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(start.Add(-age))},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	young, old, sick := aged(time.Minute, corev1.ConditionTrue), aged(3*time.Minute, corev1.ConditionTrue), aged(time.Second, corev1.ConditionFalse)
	new := aged(0, corev1.ConditionTrue)
	for _, c := range []struct {
		name        string
		chosen, all []*corev1.Pod
		n           uint64
		sum         float64
	}{
		{"none goes", nil, []*corev1.Pod{young, old}, 0, 0},
		{"the youngest", []*corev1.Pod{young}, []*corev1.Pod{young, old, sick}, 1, 1},
		{"an old one, and one that is not ready", []*corev1.Pod{sick, old}, []*corev1.Pod{young, old, sick}, 1, 3},
		{"all of them", []*corev1.Pod{young, old}, []*corev1.Pod{young, old}, 0, 0},
		{"one is new", []*corev1.Pod{old}, []*corev1.Pod{old, new}, 0, 0},
	} {
		registry := prometheus.NewRegistry()
		NewMetrics(registry).chose(c.chosen, c.all, start)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if h := families[0].Metric[0].GetHistogram(); h.GetSampleCount() != c.n || h.GetSampleSum() != c.sum {
			t.Errorf("%s: %d of %v, want %d of %v", c.name, h.GetSampleCount(), h.GetSampleSum(), c.n, c.sum)
		}
	}
	(*Metrics)(nil).chose([]*corev1.Pod{young}, nil, start)
}
