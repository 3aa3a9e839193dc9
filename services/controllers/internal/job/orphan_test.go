package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestAdoptedPodStaysTracked has a cache that shows a pod without a job, which one has adopted since: it counts the pod only while that has the finalizer.
func TestAdoptedPodStaysTracked(t *testing.T) {
	t.Parallel()
	for name, adopted := range map[string]bool{"adopted": true, "an orphan": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
			p := controllertest.Create(cluster, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "p", Finalizers: []string{batchv1.JobTrackingFinalizer},
			}})
			informers := object.NewInformers(cluster.Client)
			c := build(&controller.Env{
				Client: cluster.Client, Informers: informers, Clock: clock.RealClock{}, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
			}, nil)
			controllertest.Freeze(t, informers)
			if adopted {
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "j"}}, kind)}
				if _, err := object.For(cluster.Client, object.Pod).Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.reconcileOrphan(t.Context(), "n/p"); err != nil {
				t.Error(err)
			}
			if got := tracked(controllertest.List(cluster, object.Pod)[0]); got != adopted {
				t.Errorf("tracked: %v", got)
			}
		})
	}
}
