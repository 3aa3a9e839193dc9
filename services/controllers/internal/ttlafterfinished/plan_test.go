package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var end = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ended(ttl *int32, kind batchv1.JobConditionType, status corev1.ConditionStatus) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: ttl},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(end)}}},
	}
}

func TestExpires(t *testing.T) {
	t.Parallel()
	deleted := ended(ptr.To[int32](5), batchv1.JobComplete, corev1.ConditionTrue)
	deleted.DeletionTimestamp = &metav1.Time{Time: end}
	for name, test := range map[string]struct {
		job  *batchv1.Job
		want time.Time
	}{
		"complete":            {ended(ptr.To[int32](5), batchv1.JobComplete, corev1.ConditionTrue), end.Add(5 * time.Second)},
		"failed":              {ended(ptr.To[int32](0), batchv1.JobFailed, corev1.ConditionTrue), end},
		"about to fail":       {ended(ptr.To[int32](0), batchv1.JobFailureTarget, corev1.ConditionTrue), time.Time{}},
		"not complete":        {ended(ptr.To[int32](0), batchv1.JobComplete, corev1.ConditionFalse), time.Time{}},
		"kept":                {ended(nil, batchv1.JobComplete, corev1.ConditionTrue), time.Time{}},
		"being deleted":       {deleted, time.Time{}},
		"without a condition": {&batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ptr.To[int32](1)}}, time.Time{}},
	} {
		if got, ever := Expires(test.job); !got.Equal(test.want) || ever == test.want.IsZero() {
			t.Errorf("%s: %v, %v", name, got, ever)
		}
	}
}
