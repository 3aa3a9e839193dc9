package job

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestWritesOfAJob: 50 pods that start and end one after another, within 4 s, cost a few writes of the job and not one a pod.
func TestWritesOfAJob(t *testing.T) {
	t.Parallel()
	const (
		pods  = 50
		every = 40 * time.Millisecond
		most  = 20 // two a second, with some for a machine that is slow
	)
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	controllertest.Create(c, object.Job, freshJob(func(j *batchv1.Job) {
		j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](pods), ptr.To[int32](pods)
	}))
	made := controllertest.Await(c, object.Pod, "50 pods", func(p []*corev1.Pod) bool { return len(p) == pods })
	c.Go(func(ctx context.Context) error {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
			for _, p := range made {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return ctx.Err()
				}
				p = p.DeepCopy()
				p.ResourceVersion, p.Status.Phase = "", phase
				if phase == corev1.PodRunning {
					isReady(p)
				}
				if _, err := object.For(c.Client, object.Pod).UpdateStatus(ctx, p); err != nil {
					return err
				}
			}
		}
		return nil
	})
	controllertest.Await(c, object.Job, "a complete job", func(jobs []*batchv1.Job) bool { return isTold(jobs, completed) })
	writes, calls := c.API.Writes("jobs"), c.API.Calls("batch")
	t.Logf("%d writes of the job, %d calls for its pods", writes, calls)
	if writes > most {
		t.Errorf("%d writes of the job, want at most %d", writes, most)
	}
}
