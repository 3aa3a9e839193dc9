package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict is how a job ends. The status first tells it as SuccessCriteriaMet or FailureTarget, so that it is the same whoever goes on
// from there, and as Complete or Failed when the last pod has ended.
type verdict struct {
	success         bool
	reason, message string
}

// interim is the condition that tells the verdict while pods end, final the one that closes the job.
func (v *verdict) interim() batchv1.JobConditionType {
	if v.success {
		return batchv1.JobSuccessCriteriaMet
	}
	return batchv1.JobFailureTarget
}

func (v *verdict) final() batchv1.JobConditionType {
	if v.success {
		return batchv1.JobComplete
	}
	return batchv1.JobFailed
}

// early returns the verdict for which a job need not wait for its pods, nil where there is none: the one it has, or the first of the
// limits that it has passed, or its success policy.
func (t *tally) early(now time.Time) *verdict {
	if c := condition(t.job, batchv1.JobSuccessCriteriaMet); isTrue(c) {
		return &verdict{true, c.Reason, c.Message}
	}
	if c := condition(t.job, batchv1.JobFailureTarget); isTrue(c) {
		return &verdict{false, c.Reason, c.Message}
	}
	if message, fails := t.failsByPolicy(); fails {
		return &verdict{false, batchv1.JobReasonPodFailurePolicy, message}
	}
	if t.failed > deref(t.job.Spec.BackoffLimit) || t.restartedTooOften() {
		return &verdict{false, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"}
	}
	if rest, has := deadline(t.job, now); has && rest <= 0 {
		return &verdict{false, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"}
	}
	return t.earlyOfIndexes()
}

func (t *tally) earlyOfIndexes() *verdict {
	if !indexed(t.job) {
		return nil
	}
	if lost, most := t.lost.Len(), t.job.Spec.MaxFailedIndexes; lost > 0 {
		if most != nil && lost > int(*most) {
			return &verdict{false, batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes"}
		}
		if lost+t.done.Len() >= t.completions() {
			return &verdict{false, batchv1.JobReasonFailedIndexes, "Job has failed indexes"}
		}
	}
	if message, met := succeeds(t.job, t.done); met {
		return &verdict{true, batchv1.JobReasonSuccessPolicy, message}
	}
	return nil
}

// complete returns the verdict of a job that has all that it wants while so many pods are active, or nil. One without a number of
// completions wants one success, and the end of the other pods.
func (t *tally) complete(active int) *verdict {
	wanted := int32(1)
	if t.job.Spec.Completions != nil {
		wanted = *t.job.Spec.Completions
	}
	if t.succeeded < wanted || active > 0 {
		return nil
	}
	return &verdict{true, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"}
}

func (t *tally) failsByPolicy() (message string, fails bool) {
	for _, p := range t.pods {
		if !failed(t.job, p) {
			continue
		}
		if r := judge(t.job, p); r.action == batchv1.PodFailurePolicyActionFailJob {
			return r.message, true
		}
	}
	return "", false
}

// restartedTooOften says whether the containers of pods that restart in place have reached the back-off limit.
func (t *tally) restartedTooOften() bool {
	if t.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, p := range t.pods {
		if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			restarts += c.RestartCount
		}
	}
	return restarts >= max(1, deref(t.job.Spec.BackoffLimit))
}

// deadline returns how long the job may still be active, where that is limited.
func deadline(job *batchv1.Job, now time.Time) (rest time.Duration, has bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || suspended(job) {
		return 0, false
	}
	start := now
	if job.Status.StartTime != nil {
		start = job.Status.StartTime.Time
	}
	return start.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second).Sub(now), true
}

// Finished says whether a job has ended, by itself or not.
func Finished(job *batchv1.Job) bool {
	return isTrue(condition(job, batchv1.JobComplete)) || isTrue(condition(job, batchv1.JobFailed))
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if job.Status.Conditions[i].Type == kind {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(c *batchv1.JobCondition) bool { return c != nil && c.Status == corev1.ConditionTrue }

// set writes a condition and says whether it changed. What was never true is not said to be false.
func set(status *batchv1.JobStatus, kind batchv1.JobConditionType, value corev1.ConditionStatus, reason, message string, now time.Time) bool {
	c := batchv1.JobCondition{
		Type: kind, Status: value, Reason: reason, Message: message, LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	i := slices.IndexFunc(status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	switch {
	case i < 0 && value == corev1.ConditionFalse:
		return false
	case i < 0:
		status.Conditions = append(status.Conditions, c)
		return true
	case status.Conditions[i].Status == value && status.Conditions[i].Reason == reason && status.Conditions[i].Message == message:
		return false
	}
	status.Conditions[i] = c
	return true
}
