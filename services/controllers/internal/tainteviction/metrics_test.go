package tainteviction

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestEvictionsAreMeasured: from when the taint came, as far as that is known.
func TestEvictionsAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	clock := testclock.NewFakeClock(time.Unix(1_700_000_000, 0))
	api := objecttest.New()
	api.Now = clock.Now
	c := &controllertest.Cluster{T: t, API: api, Client: api.Serve(t)}
	controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}})
	added := metav1.NewTime(clock.Now())
	controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}},
	}})
	clock.Step(20 * time.Second)
	metrics := NewMetrics(registry)
	controllertest.Lead(t, c.Client, clock, func(env *controller.Env) (controller.Unit, error) { return New(env, metrics), nil })
	controllertest.Await(c, object.Pod, "a pod that is going", func(pods []*corev1.Pod) bool { return pods[0].DeletionTimestamp != nil })
	measured := map[string]float64{}
	controllertest.Soon(t, "an eviction that took 20 s", func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			measured[f.GetName()] = f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetHistogram().GetSampleSum()
		}
		return measured["taint_eviction_controller_pod_deletion_duration_seconds"] == 20
	})
	if n := measured["taint_eviction_controller_pod_deletions_total"]; n != 1 {
		t.Errorf("%v evictions are counted", n)
	}
}
