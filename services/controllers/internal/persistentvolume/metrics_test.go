package persistentvolume

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestMetrics counts a claim that is bound, one that is not, and their volumes, under Kubernetes' names.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, metrics, false), nil })
	local := func(v *corev1.PersistentVolume) { v.Spec.Local = &corev1.LocalVolumeSource{Path: "/x"} }
	controllertest.Create(c, object.PersistentVolume, newVolume("large", "5Gi", local))
	controllertest.Create(c, object.PersistentVolume, newVolume("small", "1Gi", local))
	controllertest.Create(c, object.PersistentVolumeClaim, fresh(newClaim(), "one"))
	controllertest.Await(c, object.PersistentVolumeClaim, "bound", func(list []*corev1.PersistentVolumeClaim) bool {
		return len(list) == 1 && list[0].Status.Phase == corev1.ClaimBound
	})
	controllertest.Create(c, object.PersistentVolumeClaim, fresh(newClaim(), "two"))
	want := `
# HELP pv_collector_bound_pv_count Persistent volumes that are bound.
# TYPE pv_collector_bound_pv_count gauge
pv_collector_bound_pv_count{storage_class="fast"} 1
# HELP pv_collector_bound_pvc_count Claims that are bound.
# TYPE pv_collector_bound_pvc_count gauge
pv_collector_bound_pvc_count{namespace="n",storage_class="fast",volume_attributes_class=""} 1
# HELP pv_collector_total_pv_count Persistent volumes.
# TYPE pv_collector_total_pv_count gauge
pv_collector_total_pv_count{plugin_name="kubernetes.io/local-volume",volume_mode="Filesystem"} 2
# HELP pv_collector_unbound_pv_count Persistent volumes that are not bound.
# TYPE pv_collector_unbound_pv_count gauge
pv_collector_unbound_pv_count{storage_class="fast"} 1
# HELP pv_collector_unbound_pvc_count Claims that are not bound.
# TYPE pv_collector_unbound_pvc_count gauge
pv_collector_unbound_pvc_count{namespace="n",storage_class="fast",volume_attributes_class=""} 1
`
	for { // the claim that waits is told of once the cache has it, and again after a while
		select {
		case <-c.Events.Events:
		case <-time.After(40 * time.Second):
			t.Fatal("no more is told")
		}
		err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pv_collector_bound_pv_count", "pv_collector_bound_pvc_count",
			"pv_collector_total_pv_count", "pv_collector_unbound_pv_count", "pv_collector_unbound_pvc_count")
		if err == nil {
			return
		}
		t.Log(err)
	}
}
