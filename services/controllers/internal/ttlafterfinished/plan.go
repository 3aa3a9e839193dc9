// Package ttlafterfinished deletes Jobs some time after they have ended.
package ttlafterfinished

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Expires returns when a job is to be deleted; false is never, or not known before it has ended.
func Expires(job *batchv1.Job) (time.Time, bool) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		end := c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed
		if end && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
		}
	}
	return time.Time{}, false
}
