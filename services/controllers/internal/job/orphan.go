package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

// A pod that no job will count must not be kept by the finalizer: one without a job, or of a job that is gone or has ended.

// podChanged looks at pods that may be orphans.
func (c *jobs) podChanged(old, p *corev1.Pod) {
	c.metrics.tracking(old, p)
	if p == nil || !tracked(p) {
		return
	}
	if job, owned := c.owner(p); owned && (job == nil || Finished(job)) || metav1.GetControllerOfNoCopy(p) == nil {
		c.orphans.Enqueue(object.KeyOf(p), c.pods.Trace(p))
	}
}

// orphaned looks at the pods of a job that is gone or has ended.
func (c *jobs) orphaned(job *batchv1.Job) {
	for _, p := range c.pods.ByIndex(controller.ByController, string(job.UID)) {
		if tracked(p) {
			c.orphans.Enqueue(object.KeyOf(p), c.jobs.Trace(job))
		}
	}
}

// owner returns the job that controls a pod, nil where the cache has it no more; owned is false where it is no job that does.
func (c *jobs) owner(p *corev1.Pod) (job *batchv1.Job, owned bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != kind.Kind || ref.APIVersion != kind.GroupVersion().String() {
		return nil, false
	}
	if job, ok := c.jobs.Get(p.Namespace, ref.Name); ok && job.UID == ref.UID {
		return job, true
	}
	return nil, true
}

// reconcileOrphan takes the finalizer off a pod that no job will count. That the job is gone is asked of the API: the cache of one that
// has begun to lead may be behind.
func (c *jobs) reconcileOrphan(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok || !tracked(p) {
		return 0, nil
	}
	ref := metav1.GetControllerOfNoCopy(p)
	if ref != nil {
		if _, owned := c.owner(p); !owned {
			return 0, nil
		}
		job, err := object.For(c.client, object.Job).Get(ctx, p.Namespace, ref.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("read job of pod: %w", err)
		}
		if err == nil && job.UID == ref.UID && (!ours(job) || !Finished(job)) {
			return 0, nil
		}
	}
	// As it was seen: a job may have adopted it meanwhile, and would never count it.
	_, err := c.untrack(ctx, []*corev1.Pod{p}, map[string]any{"resourceVersion": p.ResourceVersion})
	return 0, err
}

// untrack takes the finalizer off pods, of which more may be demanded in their metadata, and returns those that have it no more. One that is gone has none.
func (c *jobs) untrack(ctx context.Context, pods []*corev1.Pod, demanded map[string]any) (without []*corev1.Pod, err error) {
	var items []object.Item
	var patched []*corev1.Pod
	for _, p := range pods {
		if !tracked(p) {
			continue
		}
		metadata := map[string]any{"uid": p.UID, "$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer}}
		maps.Copy(metadata, demanded)
		patch, err := json.Marshal(map[string]any{"metadata": metadata})
		if err != nil {
			return nil, fmt.Errorf("encode patch of finalizers: %w", err)
		}
		patched = append(patched, p)
		items = append(items, object.For(c.client, object.Pod).PatchItem(p.Namespace, p.Name, types.StrategicMergePatchType, patch, ""))
	}
	if len(items) == 0 {
		return nil, nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return nil, fmt.Errorf("remove finalizers of pods: %w", err)
	}
	var problems []error
	for n, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) && !apierrors.IsConflict(r.Err) { // a conflict is with a namesake, or of what the next event tells
			problems = append(problems, fmt.Errorf("remove finalizer of pod: %w", r.Err))
			continue
		}
		without = append(without, patched[n])
	}
	return without, errors.Join(problems...)
}
