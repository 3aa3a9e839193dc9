package endpointslice

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestNothingOfAStaleObject has pods change while the cache does not show what was written last: it could only be refused. A slice that leaves the service
// is not waited for.
func TestNothingOfAStaleObject(t *testing.T) {
	t.Parallel()
	var (
		late     *objecttest.Late
		mu       sync.Mutex
		versions = map[string]bool{} // that were replaced
		created  = map[string]bool{}
	)
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		late, c.Client = c.API.ServeLate(t)
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Resource != "endpointslices" || w.Object == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			seen, what := versions, w.Object.GetResourceVersion()
			if w.Verb == "create" {
				seen, what = created, w.Object.GetName()
			}
			if seen[what] {
				t.Errorf("%s %s comes twice", w.Verb, what)
			}
			seen[what] = true
			return nil
		}
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	labels := map[string]string{"app": "web"}
	controllertest.Create(c, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels, ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80}}},
	})
	p := controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", Labels: labels}})
	tell := func(ready corev1.ConditionStatus) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}
		p = controllertest.UpdateStatus(c, object.Pod, p)
	}
	awaitReady := func(ready bool) *discoveryv1.EndpointSlice {
		t.Helper()
		return controllertest.Await(c, object.EndpointSlice, "a slice of the pod", func(all []*discoveryv1.EndpointSlice) bool {
			return len(all) == 1 && len(all[0].Endpoints) == 1 && *all[0].Endpoints[0].Conditions.Ready == ready
		})[0]
	}
	release := late.Hold("endpointslices")
	for range 5 {
		for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			tell(ready)
			time.Sleep(10 * time.Millisecond) // nothing tells that the controller has seen it
		}
	}
	release()
	slice := awaitReady(false)
	controllertest.Delete(c, object.EndpointSlice, "n", slice.Name, metav1.DeleteOptions{})
	mu.Lock()
	clear(created)
	mu.Unlock()
	awaitReady(false)
	tell(corev1.ConditionTrue)
	awaitReady(true)
}

// TestAnEndingProcessTellsNothing: that a write was broken off is no news about its service.
func TestAnEndingProcessTellsNothing(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	controllertest.Create(cluster, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	})
	controllertest.TellsNothing(cluster, "default/web", func(env *controller.Env) func(context.Context, string) (time.Duration, error) {
		return build(env, nil).reconcile
	})
}
