package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// ruling is what a job's podFailurePolicy makes of a failed pod.
type ruling struct {
	action  batchv1.PodFailurePolicyAction // Count where no rule matches
	message string                         // why the job fails, of FailJob
	matched bool                           // a rule says so
}

// judge applies the first rule that matches the failed pod.
func judge(job *batchv1.Job, p *corev1.Pod) ruling {
	policy := job.Spec.PodFailurePolicy
	if policy == nil {
		return ruling{action: batchv1.PodFailurePolicyActionCount}
	}
	for i, rule := range policy.Rules {
		cause, matches := match(rule, p)
		if !matches {
			continue
		}
		r := ruling{action: rule.Action, matched: true}
		if rule.Action == batchv1.PodFailurePolicyActionFailJob {
			r.message = fmt.Sprintf("%s matching %v rule at index %d", cause, rule.Action, i)
		}
		return r
	}
	return ruling{action: batchv1.PodFailurePolicyActionCount}
}

// counts says whether the pod's failure counts against the job's back-off limits.
func (r ruling) counts() bool { return r.action != batchv1.PodFailurePolicyActionIgnore }

// match says whether a rule applies to a failed pod, and by what.
func match(rule batchv1.PodFailurePolicyRule, p *corev1.Pod) (cause string, matches bool) {
	if codes := rule.OnExitCodes; codes != nil {
		for _, c := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
			if exited(c, codes) {
				return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", c.Name, p.Namespace, p.Name, c.State.Terminated.ExitCode), true
			}
		}
		return "", false
	}
	for _, c := range p.Status.Conditions {
		for _, pattern := range rule.OnPodConditions {
			if c.Type == pattern.Type && c.Status == pattern.Status {
				return fmt.Sprintf("Pod %s/%s has condition %v", p.Namespace, p.Name, c.Type), true
			}
		}
	}
	return "", false
}

// exited says whether a container has failed with a code that is asked for. Success never is.
func exited(c corev1.ContainerStatus, codes *batchv1.PodFailurePolicyOnExitCodesRequirement) bool {
	end := c.State.Terminated
	if end == nil || end.ExitCode == 0 || codes.ContainerName != nil && *codes.ContainerName != c.Name {
		return false
	}
	listed := slices.Contains(codes.Values, end.ExitCode)
	switch codes.Operator {
	case batchv1.PodFailurePolicyOnExitCodesOpIn:
		return listed
	case batchv1.PodFailurePolicyOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// succeeds says whether the done indexes satisfy one of the job's success rules, and which.
func succeeds(job *batchv1.Job, done Indexes) (message string, met bool) {
	if job.Spec.SuccessPolicy == nil || len(done) == 0 {
		return "", false
	}
	for i, rule := range job.Spec.SuccessPolicy.Rules {
		if satisfies(rule, done, int(deref(job.Spec.Completions))) {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}

func satisfies(rule batchv1.SuccessPolicyRule, done Indexes, completions int) bool {
	if rule.SucceededIndexes == nil {
		return rule.SucceededCount != nil && done.Len() >= int(*rule.SucceededCount)
	}
	wanted := ParseIndexes(*rule.SucceededIndexes, completions)
	if len(wanted) == 0 {
		return false
	}
	shared := done.Shared(wanted)
	return shared == wanted.Len() || rule.SucceededCount != nil && shared >= int(*rule.SucceededCount)
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
