package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/workload"
)

// validateStatus checks a status by itself, beside the spec, and beside the status before it.
func validateStatus(j, old *batchv1.Job) field.ErrorList {
	s, path := &j.Status, field.NewPath("status")
	errs := workload.Counts(path, workload.Count{Name: "active", N: s.Active}, workload.Count{Name: "succeeded", N: s.Succeeded},
		workload.Count{Name: "failed", N: s.Failed}, workload.Count{Name: "ready", N: row.Deref(s.Ready)},
		workload.Count{Name: "terminating", N: row.Deref(s.Terminating)})
	errs = append(errs, validateUncounted(s.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, validateFinish(j, old, path)...)
	errs = append(errs, validateIndexes(j, path)...)
	errs = append(errs, validateCriteria(j, path)...)
	return append(errs, validateProgress(j, old, path)...)
}

func validateUncounted(u *batchv1.UncountedTerminatedPods, path *field.Path) field.ErrorList {
	if u == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[types.UID]bool{}
	one := func(list []types.UID, at *field.Path) {
		for i, uid := range list {
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(at.Index(i), uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(at.Index(i), uid))
			}
			seen[uid] = true
		}
	}
	one(u.Succeeded, path.Child("succeeded"))
	one(u.Failed, path.Child("failed"))
	return errs
}

// problem is a condition list that contradicts itself or the rest.
func problem(path *field.Path, text string) *field.Error {
	return field.Invalid(path.Child("conditions"), field.OmitValueType{}, text)
}

// validateFinish checks what a finished job must say and may not say any more.
func validateFinish(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	s := &j.Status
	var errs field.ErrorList
	complete, failed := has(j, batchv1.JobComplete), has(j, batchv1.JobFailed)
	if complete && failed {
		errs = append(errs, problem(path, "cannot set Complete=True and Failed=true conditions"))
	}
	if complete && has(j, batchv1.JobFailureTarget) {
		errs = append(errs, problem(path, "cannot set Complete=True and FailureTarget=true conditions"))
	}
	at := path.Child("completionTime")
	if s.CompletionTime != nil && !complete {
		errs = append(errs, field.Invalid(at, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
	}
	if s.CompletionTime == nil && complete {
		errs = append(errs, field.Required(at, "completionTime is required for Complete jobs"))
	}
	if s.CompletionTime != nil && s.StartTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(at, s.CompletionTime, "must be equal to or after `startTime`"))
	}
	if failed && !has(old, batchv1.JobFailed) && !has(j, batchv1.JobFailureTarget) {
		errs = append(errs, problem(path, "cannot set Failed=True condition without the FailureTarget=true condition"))
	}
	if complete && !has(j, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, problem(path, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
	}
	if !complete && !failed {
		return errs
	}
	if s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	never := row.Deref(j.Spec.Suspend) && j.Spec.Completions != nil && *j.Spec.Completions == 0 // ended without having been resumed
	if s.StartTime == nil && !never {
		errs = append(errs, field.Required(path.Child("startTime"), "startTime is required for finished job"))
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), u, "must be empty for finished job"))
	}
	return errs
}

func validateIndexes(j *batchv1.Job, path *field.Path) field.ErrorList {
	s, completions := &j.Status, row.Deref(j.Spec.Completions)
	var errs field.ErrorList
	at := path.Child("completedIndexes")
	done, err := indexes(s.CompletedIndexes, completions)
	if err != nil {
		errs = append(errs, field.Invalid(at, s.CompletedIndexes, "error parsing completedIndexes: "+err.Error()))
	}
	if s.CompletedIndexes != "" && row.Deref(j.Spec.CompletionMode) != batchv1.IndexedCompletion {
		errs = append(errs, field.Invalid(at, s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if s.FailedIndexes == nil {
		return errs
	}
	at = path.Child("failedIndexes")
	failed, err := indexes(*s.FailedIndexes, completions)
	if j.Spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(at, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	} else if err != nil {
		errs = append(errs, field.Invalid(at, *s.FailedIndexes, "error parsing failedIndexes: "+err.Error()))
	}
	if first, both := shared(failed, done); both {
		errs = append(errs, field.Invalid(at, *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", first)))
	}
	return errs
}

func validateCriteria(j *batchv1.Job, path *field.Path) field.ErrorList {
	s := &j.Status
	var errs field.ErrorList
	complete, failed, met := has(j, batchv1.JobComplete), has(j, batchv1.JobFailed), has(j, batchv1.JobSuccessCriteriaMet)
	if n := row.Deref(s.Terminating); n > 0 && (complete || failed) {
		errs = append(errs, field.Invalid(path.Child("terminating"), n, "terminating>0 is invalid for finished job"))
	}
	if n := row.Deref(s.Ready); n > s.Active {
		errs = append(errs, field.Invalid(path.Child("ready"), n, "cannot set more ready pods than active"))
	}
	if met && failed {
		errs = append(errs, problem(path, "cannot set SuccessCriteriaMet=True and Failed=true conditions"))
	}
	if met && has(j, batchv1.JobFailureTarget) {
		errs = append(errs, problem(path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
	}
	if complete && !met && j.Spec.SuccessPolicy != nil {
		errs = append(errs, problem(path, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
	}
	return errs
}

// validateProgress refuses what would take back what a job was said to have come to.
func validateProgress(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	s, was := &j.Status, &old.Status
	var errs field.ErrorList
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget} {
		if has(old, t) && !has(j, t) {
			errs = append(errs, problem(path, fmt.Sprintf("cannot disable the terminal %s=%s condition", t, corev1.ConditionTrue)))
		}
	}
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	if s.Succeeded < was.Succeeded && !elastic(j) {
		errs = append(errs, field.Invalid(path.Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter"))
	}
	if was.CompletionTime != nil && s.CompletionTime != nil {
		errs = append(errs, immutableTime(s.CompletionTime.Equal(was.CompletionTime), s.CompletionTime, path.Child("completionTime"), check.Immutable)...)
	}
	resumed := has(old, batchv1.JobSuspended) && !has(j, batchv1.JobSuspended)
	if was.StartTime != nil && !row.Deref(j.Spec.Suspend) && !resumed {
		errs = append(errs, immutableTime(s.StartTime.Equal(was.StartTime), s.StartTime, path.Child("startTime"), "field is immutable for unsuspended job once set")...)
	}
	if has(old, batchv1.JobSuccessCriteriaMet) && !has(j, batchv1.JobSuccessCriteriaMet) {
		errs = append(errs, problem(path, "cannot disable the SuccessCriteriaMet=True condition"))
	}
	return errs
}

// elastic says whether a job's completions can be changed: those of an indexed one that runs all of them at once, which loses the
// indexes that it has no more.
func elastic(j *batchv1.Job) bool {
	completions, parallelism := j.Spec.Completions, j.Spec.Parallelism
	return row.Deref(j.Spec.CompletionMode) == batchv1.IndexedCompletion && completions != nil && parallelism != nil && *completions == *parallelism
}

func immutableTime(same bool, value any, path *field.Path, text string) field.ErrorList {
	if same {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, text)}
}
