package endpointslice

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/pack"
)

// TestServicesAreMeasured: a service gets its slice, and a reconcile of it is counted with what it wrote.
func TestServicesAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	c := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	controllertest.Create(c, object.Service, newService(func(s *corev1.Service) { s.Spec.TrafficDistribution = ptr.To("PreferClose") }))
	for i := range 3 {
		controllertest.Create(c, object.Pod, newPod(i, nil))
	}
	controllertest.Lead(t, c.Client, clock.RealClock{}, func(env *controller.Env) (controller.Unit, error) { return New(env, m), nil })
	controllertest.Await(c, object.EndpointSlice, "a slice", func(s []*discoveryv1.EndpointSlice) bool { return len(s) == 1 && len(s[0].Endpoints) == 3 })
	controllertest.Soon(t, "a slice that is counted", func() bool { return testutil.CollectAndCount(m.changed) == 1 })
	const want = `# HELP endpoint_slice_controller_changes Slices that were written: create, update or delete.
# TYPE endpoint_slice_controller_changes counter
endpoint_slice_controller_changes{operation="create"} 1
# HELP endpoint_slice_controller_desired_endpoint_slices Slices that there would be if all but the last of each group were full.
# TYPE endpoint_slice_controller_desired_endpoint_slices gauge
endpoint_slice_controller_desired_endpoint_slices 1
# HELP endpoint_slice_controller_endpoints_desired Endpoints that there should be.
# TYPE endpoint_slice_controller_endpoints_desired gauge
endpoint_slice_controller_endpoints_desired 3
# HELP endpoint_slice_controller_num_endpoint_slices Slices that there are.
# TYPE endpoint_slice_controller_num_endpoint_slices gauge
endpoint_slice_controller_num_endpoint_slices 1
# HELP endpoint_slice_controller_services_count_by_traffic_distribution Services that ask for their traffic to stay near.
# TYPE endpoint_slice_controller_services_count_by_traffic_distribution gauge
endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution="PreferClose"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "endpoint_slice_controller_changes", "endpoint_slice_controller_desired_endpoint_slices",
		"endpoint_slice_controller_endpoints_desired", "endpoint_slice_controller_num_endpoint_slices",
		"endpoint_slice_controller_services_count_by_traffic_distribution"); err != nil {
		t.Error(err)
	}
	controllertest.Soon(t, "a reconcile that is counted", func() bool { return testutil.ToFloat64(m.syncs.WithLabelValues("success")) > 0 })
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	near := newService(func(s *corev1.Service) { s.Spec.TrafficDistribution = ptr.To("PreferSameNode") })
	byCPU := near.DeepCopy()
	byCPU.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
	plan := pack.Plan{Create: []*discoveryv1.EndpointSlice{{}}}
	m.applied(near, plan, nil)
	m.applied(byCPU, plan, nil)
	m.applied(newService(nil), plan, errors.New("no"))
	if n := testutil.CollectAndCount(m.changed); n != 2 {
		t.Errorf("%d series, want those of Disabled with a distribution and of Auto without", n)
	}
	services := func(want float64) {
		t.Helper()
		if n := testutil.ToFloat64(m.services.WithLabelValues("PreferSameNode")); n != want {
			t.Errorf("%v services ask for their own node, want %v", n, want)
		}
	}
	m.planned("a/x", near, plan)
	m.planned("a/x", near, plan)
	m.planned("a/y", near, plan)
	services(2)
	m.planned("a/x", byCPU, plan)
	services(1)
	m.forget("a/y")
	services(0)
	for result, err := range map[string]error{
		"success": nil, "error": errors.New("no"), "stale": apierrors.NewConflict(object.EndpointSlice.GroupResource(), "x", nil),
	} {
		m.synced(err)
		if n := testutil.ToFloat64(m.syncs.WithLabelValues(result)); n != 1 {
			t.Errorf("%v reconciles are counted as %s", n, result)
		}
	}
	m.began()
	if n := testutil.CollectAndCount(m.services); n != 0 {
		t.Errorf("%d series of services after the leadership", n)
	}
	var none *Metrics
	none.began()
	none.synced(nil)
	none.planned("", near, plan)
	none.applied(near, plan, nil)
	none.forget("")
}
