// Package job has the kinds Job and CronJob.
package job

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind Job; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[batchv1.Job, batchv1.JobList](batchv1.SchemeGroupVersion, "jobs")
	k.Namespaced, k.Categories = true, []string{"all"}
	row.SpecStatus(k, func(j *batchv1.Job) *batchv1.JobSpec { return &j.Spec },
		func(j *batchv1.Job) *batchv1.JobStatus { return &j.Status }, validateStatus)
	row.AfterStatus(k, defaultLabels)
	k.Complete = func(obj registry.Object, _ registry.Caller) { generateSelector(obj.(*batchv1.Job)) }
	k.Settle = typed.Do(settle)
	k.Default = typed.Do(fill)
	k.Validate = typed.Check(validate)
	workload.Ratchet(k, func(j *batchv1.Job) *corev1.PodTemplateSpec { return &j.Spec.Template })
	k.ValidateCreate = typed.Check(validateHostname)
	k.ValidateUpdate = typed.CheckChange(validateUpdate)
	k.Warnings = typed.WarnOfSpec(func(j *batchv1.Job) []string { return podspec.TemplateWarnings(&j.Spec.Template) })
	workload.WarnOfNames(k)
	k.SelectableFields = typed.Get(func(j *batchv1.Job) fields.Set {
		return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))}
	})
	k.Columns = append([]metav1.TableColumnDefinition{
		column.Name(),
		column.String("Status", "Status of the job."),
		column.String("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		column.String("Duration", "Time required to complete the job."),
		column.Age(),
	}, append(workload.PodColumns(), column.Wide(column.String("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])))...)
	k.Cells = typed.Get(func(j *batchv1.Job) []any {
		names, images := column.Containers(j.Spec.Template.Spec.Containers)
		return []any{
			j.Name, state(j), completions(j), took(j, now()), column.Since(now(), j.CreationTimestamp.Time),
			names, images, column.Selector(j.Spec.Selector),
		}
	})
	return k
}

func fill(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		row.Set(&s.Completions, 1)
	}
	row.Set(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		row.Set(&s.BackoffLimit, math.MaxInt32)
	}
	row.Set(&s.BackoffLimit, 6)
	defaultLabels(j)
	row.Set(&s.CompletionMode, batchv1.NonIndexedCompletion)
	row.Set(&s.Suspend, false)
	row.Set(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		row.Set(&s.PodReplacementPolicy, batchv1.Failed)
	}
	row.Set(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	fillTemplate(s)
}

// defaultLabels gives a job those of its pods, where it has none: the very same map, by which generateSelector knows them from equal
// ones that the user wrote. As this is a default, a status cannot take them away either.
func defaultLabels(j *batchv1.Job) {
	if l := j.Spec.Template.Labels; len(l) > 0 && len(j.Labels) == 0 {
		j.Labels = l
	}
}

// settle has a job without labels take those that its pods have been given, as Kubernetes does when it reads it for the first time.
func settle(j *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(j.Spec.Template.Labels)
	}
}

// fillTemplate sets what a Job inside of a CronJob has by default, too.
func fillTemplate(s *batchv1.JobSpec) {
	podspec.Default(&s.Template.Spec)
	if s.PodFailurePolicy == nil {
		return
	}
	for i := range s.PodFailurePolicy.Rules {
		for j := range s.PodFailurePolicy.Rules[i].OnPodConditions {
			if p := &s.PodFailurePolicy.Rules[i].OnPodConditions[j]; p.Status == "" {
				p.Status = corev1.ConditionTrue
			}
		}
	}
}

// The labels of pods of a job before 1.27.
const (
	oldUIDLabel  = "controller-uid"
	oldNameLabel = "job-name"
)

// generated returns the labels that a Job's pods get.
func generated(j *batchv1.Job) map[string]string {
	return map[string]string{
		oldUIDLabel: string(j.UID), oldNameLabel: j.Name,
		batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name,
	}
}

// same tells whether two maps are one, and not only equal.
func same(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// generateSelector gives the job the selector of its own pods, unless the user
// wants to select them in some other way. What the user set stays, and is refused.
func generateSelector(j *batchv1.Job) {
	if row.Deref(j.Spec.ManualSelector) {
		return
	}
	t := &j.Spec.Template
	// A job without labels of its own has taken those of the template, and takes these as well; where there were none to take, only what is stored has these.
	bare := len(j.Labels) > 0 && same(j.Labels, t.Labels)
	if t.Labels = maps.Clone(t.Labels); t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for key, value := range generated(j) {
		if _, set := t.Labels[key]; !set {
			t.Labels[key] = value
		}
	}
	if bare {
		j.Labels = maps.Clone(t.Labels)
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, set := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
}

func has(j *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func state(j *batchv1.Job) string {
	switch {
	case has(j, batchv1.JobComplete):
		return "Complete"
	case has(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has(j, batchv1.JobSuspended):
		return "Suspended"
	case has(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(j *batchv1.Job) string {
	if j.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	}
	if n := row.Deref(j.Spec.Parallelism); n > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, n)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func took(j *batchv1.Job, now time.Time) string {
	start, end := j.Status.StartTime, j.Status.CompletionTime
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(now.Sub(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}
