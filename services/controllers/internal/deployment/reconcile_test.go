package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/written"
)

// TestWaitsForItsWrites: while a cache does not show what was written, nothing is planned from it, which could only be refused.
func TestWaitsForItsWrites(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"deployments", "replicasets"} {
		t.Run(held, func(t *testing.T) {
			t.Parallel()
			var (
				late *objecttest.Late
				d    *deployments
			)
			c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
				late, c.Client = c.API.ServeLate(t)
				labels := map[string]string{"app": "x"}
				controllertest.Create(c, object.Deployment, &appsv1.Deployment{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", Generation: 1},
					Spec:       appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}},
				})
			}, func(env *controller.Env) (controller.Unit, error) {
				d = build(env)
				return controller.Unit{}, nil // it is the test that reconciles
			})
			controllertest.Soon(t, "a Deployment in the cache", func() bool { _, ok := d.deployments.Get("ns", "x"); return ok })
			reconcile := func() time.Duration {
				after, err := d.reconcile(t.Context(), "ns/x")
				if err != nil {
					t.Fatal(err)
				}
				return after
			}
			release := late.Hold(held)
			defer release()
			if reconcile() == written.Patience || len(controllertest.List(c, object.ReplicaSet)) != 1 || controllertest.List(c, object.Deployment)[0].Status.ObservedGeneration != 1 {
				t.Fatal("no set was made, or no status written")
			}
			if after := reconcile(); after != written.Patience {
				t.Errorf("it looks again after %s", after)
			}
			release()
			controllertest.Soon(t, "the cache to show what was written", func() bool { return reconcile() != written.Patience })
		})
	}
}
