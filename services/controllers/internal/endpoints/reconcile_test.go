package endpoints

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestWhoseEndpointsGo: those whose service goes or has gone; not those that are there before it, as a restored backup's are, or that elect leaders.
func TestWhoseEndpointsGo(t *testing.T) {
	t.Parallel()
	made := func(name string, annotations map[string]string) *corev1.Endpoints {
		return &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations, Labels: map[string]string{managedLabel: manager}},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}},
		}
	}
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Endpoints, made("left", nil))
		controllertest.Create(c, object.Endpoints, made("election", map[string]string{leaderAnnotation: "{}"}))
	}, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	await := func(when string, want ...string) {
		t.Helper()
		controllertest.Await(c, object.Endpoints, when, func(all []*corev1.Endpoints) bool {
			var names []string
			for _, e := range all {
				names = append(names, e.Name)
			}
			slices.Sort(names)
			return slices.Equal(names, want)
		})
	}
	await("what was left is removed", "election")
	for _, e := range []*corev1.Endpoints{made("early", nil), {ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "custom"}}} {
		controllertest.Create(c, object.Endpoints, e)
	}
	for name, selector := range map[string]map[string]string{"custom": nil, "web": {"app": "web"}} {
		controllertest.Create(c, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}})
	}
	await("a service's are made", "custom", "early", "election", "web")
	controllertest.Delete(c, object.Endpoints, "default", "web", metav1.DeleteOptions{})
	await("they are made again", "custom", "early", "election", "web")
	controllertest.Delete(c, object.Service, "default", "custom", metav1.DeleteOptions{})
	await("a user's go with their service", "early", "election", "web")
	controllertest.Create(c, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "early"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "early"}},
	})
	controllertest.Await(c, object.Endpoints, "those that were early become the service's", func(all []*corev1.Endpoints) bool {
		return slices.ContainsFunc(all, func(e *corev1.Endpoints) bool { return e.Name == "early" && len(e.Subsets) == 0 })
	})
}
