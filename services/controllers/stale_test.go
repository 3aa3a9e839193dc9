package controllers

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/daemonset"
	"howdah.dev/services/controllers/internal/podcontrol"
	"howdah.dev/services/controllers/internal/replicaset"
	"howdah.dev/services/controllers/internal/statefulset"
)

// A controller whose cache does not show its last status yet writes no other: it could only be refused.
func TestNoStatusOfAStaleObject(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "x"}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x", Generation: 1}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for resource, tc := range map[string]struct {
		build  func(env *controller.Env, r prometheus.Registerer) controller.Unit
		create func(c *controllertest.Cluster)
		metric string
	}{
		"replicasets": {
			func(env *controller.Env, r prometheus.Registerer) controller.Unit {
				return replicaset.New(env, replicaset.NewMetrics(r))
			},
			func(c *controllertest.Cluster) {
				controllertest.Create(c, object.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: template}})
			}, "replicaset_controller_stale_sync_skips_total",
		},
		"statefulsets": {
			func(env *controller.Env, r prometheus.Registerer) controller.Unit {
				return statefulset.New(env, statefulset.NewMetrics(r))
			},
			func(c *controllertest.Cluster) {
				controllertest.Create(c, object.StatefulSet, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: template}})
			}, "statefulset_controller_stale_sync_skips_total",
		},
		"daemonsets": {
			func(env *controller.Env, r prometheus.Registerer) controller.Unit {
				return daemonset.New(env, podcontrol.NewSkips(r, "daemonset_controller"))
			},
			func(c *controllertest.Cluster) {
				controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
				controllertest.Create(c, object.DaemonSet, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}})
			}, "daemonset_controller_stale_sync_skips_total",
		},
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			var (
				mu       sync.Mutex
				versions = map[string]bool{} // that a status was made of
				registry = prometheus.NewRegistry()
				late     *objecttest.Late
			)
			c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
				late, c.Client = c.API.ServeLate(t)
				c.API.Intercept = func(w objecttest.Write) error {
					if w.Resource != resource || w.Subresource != "status" {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if v := w.Object.GetResourceVersion(); versions[v] {
						t.Errorf("two statuses were made of version %s", v)
					} else {
						versions[v] = true
					}
					return nil
				}
			}, func(env *controller.Env) (controller.Unit, error) { return tc.build(env, registry), nil })
			tc.create(c)
			pod := controllertest.Await(c, object.Pod, "a pod", func(all []*corev1.Pod) bool { return len(all) == 1 })[0]
			release := late.Hold(resource)
			defer release()
			for ready, deadline := true, time.Now().Add(time.Minute); ; ready = !ready {
				if n, err := testutil.GatherAndCount(registry, tc.metric); err != nil {
					t.Fatal(err)
				} else if n > 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("it does not see that its cache is behind")
				}
				next := pod.DeepCopy()
				next.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}
				if ready {
					next.Status.Conditions[0].Status = corev1.ConditionTrue
				}
				pod = controllertest.UpdateStatus(c, object.Pod, next)
				time.Sleep(20 * time.Millisecond) // nothing tells that the controller has seen it
			}
		})
	}
}
