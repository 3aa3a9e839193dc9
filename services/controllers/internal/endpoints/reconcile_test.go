package endpoints

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
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

// TestNamesakeKeepsItsEndpoints has a cache that does not show a service yet which was made again, with Endpoints of a user's.
func TestNamesakeKeepsItsEndpoints(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	controllertest.Create(cluster, object.Endpoints, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "custom"}})
	informers := object.NewInformers(cluster.Client)
	c := build(&controller.Env{
		Client: cluster.Client, Informers: informers, Clock: clock.RealClock{}, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
	})
	controllertest.Freeze(t, informers)
	service := controllertest.Create(cluster, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "custom"}})
	for _, left := range []int{1, 0} {
		if _, err := c.reconcile(t.Context(), "default/custom"); err != nil {
			t.Error(err)
		}
		if n := len(controllertest.List(cluster, object.Endpoints)); n != left {
			t.Errorf("%d Endpoints are left, not %d", n, left)
		}
		if left > 0 {
			controllertest.Delete(cluster, object.Service, service.Namespace, service.Name, metav1.DeleteOptions{})
		}
	}
}

// TestNothingOfAStaleObject has pods change while the cache does not show what was written last: it could only be refused.
func TestNothingOfAStaleObject(t *testing.T) {
	t.Parallel()
	var (
		late     *objecttest.Late
		mu       sync.Mutex
		versions = map[string]bool{} // that were replaced
	)
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		late, c.Client = c.API.ServeLate(t)
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb != "update" || w.Resource != "endpoints" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if v := w.Object.GetResourceVersion(); versions[v] {
				t.Errorf("version %s is replaced twice", v)
			} else {
				versions[v] = true
			}
			return nil
		}
	}, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	controllertest.Create(c, object.Service, newService())
	p := newPod(1, true, 80)
	p.Labels = map[string]string{"app": "web"}
	status := p.Status
	p = controllertest.Create(c, object.Pod, p)
	p.Status = status
	p = controllertest.UpdateStatus(c, object.Pod, p)
	has := func(what string, ready, others int) {
		t.Helper()
		controllertest.Await(c, object.Endpoints, what, func(all []*corev1.Endpoints) bool {
			return len(all) == 1 && len(all[0].Subsets) == 1 && len(all[0].Subsets[0].Addresses) == ready && len(all[0].Subsets[0].NotReadyAddresses) == others
		})
	}
	has("the pod is there", 1, 0)
	release := late.Hold("endpoints")
	defer release()
	for range 10 {
		p.Status.Conditions[0].Status = map[corev1.ConditionStatus]corev1.ConditionStatus{
			corev1.ConditionTrue: corev1.ConditionFalse, corev1.ConditionFalse: corev1.ConditionTrue,
		}[p.Status.Conditions[0].Status]
		p = controllertest.UpdateStatus(c, object.Pod, p)
		time.Sleep(10 * time.Millisecond) // nothing tells that the controller has seen it
	}
	release()
	has("the pod is ready", 1, 0)
}

// TestAnEndingProcessTellsNothing: that a write was broken off is no news about its service.
func TestAnEndingProcessTellsNothing(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	controllertest.Create(cluster, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	})
	controllertest.TellsNothing(cluster, "default/web", func(env *controller.Env) func(context.Context, string) (time.Duration, error) {
		return build(env).reconcile
	})
}
