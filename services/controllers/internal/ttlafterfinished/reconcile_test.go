package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestExpiredJobIsDeleted(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	job := func(name string, ttl *int32, ago time.Duration) *batchv1.Job {
		j := ended(ttl, batchv1.JobComplete, corev1.ConditionTrue)
		j.Name, j.Status.Conditions[0].LastTransitionTime = name, metav1.NewTime(now.Add(-ago))
		return j
	}
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Job, job("kept", nil, time.Hour))
		controllertest.Create(c, object.Job, job("later", ptr.To[int32](3600), time.Minute))
		controllertest.Create(c, object.Job, job("now", ptr.To[int32](60), time.Hour))
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	jobs := controllertest.Await(c, object.Job, "the deletion of the job", func(jobs []*batchv1.Job) bool {
		for _, j := range jobs {
			if j.Name == "now" {
				return j.DeletionTimestamp != nil
			}
		}
		return true
	})
	for _, j := range jobs {
		if j.Name != "now" && j.DeletionTimestamp != nil {
			t.Errorf("job %s is deleted", j.Name)
		}
		if j.Name == "now" && (len(j.Finalizers) != 1 || j.Finalizers[0] != metav1.FinalizerDeleteDependents) {
			t.Errorf("finalizers %v: the pods must go first", j.Finalizers)
		}
	}
	if len(jobs) != 3 {
		t.Errorf("%d jobs", len(jobs))
	}
}
