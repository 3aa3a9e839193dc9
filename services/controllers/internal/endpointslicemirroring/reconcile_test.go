package endpointslicemirroring

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestMirror(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, metrics), nil })
	for name, selector := range map[string]map[string]string{"custom": nil, "selecting": {"app": "x"}} {
		controllertest.Create(c, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}})
	}
	var e *corev1.Endpoints
	for _, name := range []string{"selecting", "without-service", "custom"} {
		e = controllertest.Create(c, object.Endpoints, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"a": "b"}},
			Subsets: []corev1.EndpointSubset{{
				Addresses:         []corev1.EndpointAddress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}},
				NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.2"}},
				Ports:             []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
			}},
		})
	}
	slices := controllertest.Await(c, object.EndpointSlice, "a slice of each family", func(s []*discoveryv1.EndpointSlice) bool { return len(s) == 2 })
	for _, s := range slices {
		if s.Labels["kubernetes.io/service-name"] != "custom" || s.Labels["a"] != "b" || !metav1.IsControlledBy(s, e) || *s.Ports[0].Port != 80 {
			t.Errorf("slice %s: labels %v, owners %v", s.Name, s.Labels, s.OwnerReferences)
		}
		for _, endpoint := range s.Endpoints {
			if ready := endpoint.Addresses[0] != "192.0.2.2"; *endpoint.Conditions.Ready != ready {
				t.Errorf("%s is ready: %v", endpoint.Addresses[0], *endpoint.Conditions.Ready)
			}
		}
	}
	stray := slices[0].DeepCopy() // as a restored backup has it
	stray.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "custom-stray", Labels: stray.Labels}
	controllertest.Create(c, object.EndpointSlice, stray)
	controllertest.Await(c, object.EndpointSlice, "the stray is gone", func(s []*discoveryv1.EndpointSlice) bool { return len(s) == 2 })
	for _, annotations := range []map[string]string{{"note": "one", "other": "two"}, {"note": "three"}, nil} {
		e.Annotations = annotations
		e = updated(t, c, e)
		controllertest.Await(c, object.EndpointSlice, "the annotations on both slices, and no others", func(s []*discoveryv1.EndpointSlice) bool {
			return len(s) == 2 && maps.Equal(s[0].Annotations, annotations) && maps.Equal(s[1].Annotations, annotations)
		})
	}
	port := func(s *discoveryv1.EndpointSlice) int32 { return *s.Ports[0].Port }
	e.Subsets[0].Addresses[0].Hostname, e.Subsets[0].Addresses[1].Hostname = "four", "six"
	e = updated(t, c, e)
	controllertest.Await(c, object.EndpointSlice, "slices written by their names", func(s []*discoveryv1.EndpointSlice) bool {
		return len(s) == 2 && s[0].GenerateName == "" && s[1].GenerateName == "" && s[0].Endpoints[0].Hostname != nil
	})
	e.Subsets[0].Ports[0].Port = 81
	e = updated(t, c, e)
	controllertest.Await(c, object.EndpointSlice, "slices that became others", func(s []*discoveryv1.EndpointSlice) bool {
		return len(s) == 2 && port(s[0]) == 81 && port(s[1]) == 81 && s[0].GenerateName == "custom-" && s[1].GenerateName == "custom-"
	})
	e.Labels[discoveryv1.LabelSkipMirror] = "true"
	updated(t, c, e)
	controllertest.Gone(c, object.EndpointSlice)
	const want = `# HELP endpoint_slice_mirroring_controller_desired_endpoint_slices Slices that there would be if all but the last of each group were full.
# TYPE endpoint_slice_mirroring_controller_desired_endpoint_slices gauge
endpoint_slice_mirroring_controller_desired_endpoint_slices 0
# HELP endpoint_slice_mirroring_controller_endpoints_desired Endpoints that there should be.
# TYPE endpoint_slice_mirroring_controller_endpoints_desired gauge
endpoint_slice_mirroring_controller_endpoints_desired 0
# HELP endpoint_slice_mirroring_controller_num_endpoint_slices Slices that there are.
# TYPE endpoint_slice_mirroring_controller_num_endpoint_slices gauge
endpoint_slice_mirroring_controller_num_endpoint_slices 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "endpoint_slice_mirroring_controller_desired_endpoint_slices",
		"endpoint_slice_mirroring_controller_endpoints_desired", "endpoint_slice_mirroring_controller_num_endpoint_slices"); err != nil {
		t.Error(err)
	}
}

func updated(t *testing.T, c *controllertest.Cluster, e *corev1.Endpoints) *corev1.Endpoints {
	t.Helper()
	e, err := object.For(c.Client, object.Endpoints).Update(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAnEndingProcessTellsNothing: that a write was broken off is no news about its Endpoints.
func TestAnEndingProcessTellsNothing(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	controllertest.Create(cluster, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{},
	})
	controllertest.Create(cluster, object.Endpoints, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
	})
	controllertest.TellsNothing(cluster, "default/web", func(env *controller.Env) func(context.Context, string) (time.Duration, error) {
		return build(env, nil).reconcile
	})
}
