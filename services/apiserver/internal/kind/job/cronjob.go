package job

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/internal/schedule"
)

// Cron returns the kind CronJob; now is the clock for ages.
func Cron(now func() time.Time) *registry.Kind {
	k := row.Of[batchv1.CronJob, batchv1.CronJobList](batchv1.SchemeGroupVersion, "cronjobs")
	k.Namespaced, k.ShortNames, k.Categories = true, []string{"cj"}, []string{"all"}
	row.SpecStatus(k, func(c *batchv1.CronJob) *batchv1.CronJobSpec { return &c.Spec },
		func(c *batchv1.CronJob) *batchv1.CronJobStatus { return &c.Status }, nil)
	k.Default = typed.Do(func(c *batchv1.CronJob) {
		if c.Spec.ConcurrencyPolicy == "" {
			c.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
		}
		row.Set(&c.Spec.Suspend, false)
		row.Set(&c.Spec.SuccessfulJobsHistoryLimit, 3)
		row.Set(&c.Spec.FailedJobsHistoryLimit, 1)
		fillTemplate(&c.Spec.JobTemplate.Spec)
	})
	typed.Ratchet(k, validateCron)
	workload.Ratchet(k, func(c *batchv1.CronJob) *corev1.PodTemplateSpec { return &c.Spec.JobTemplate.Spec.Template })
	// A job's name is this one and eleven characters more.
	k.ValidateCreate = typed.Check(func(c *batchv1.CronJob) field.ErrorList {
		if len(c.Name) > longestCronName {
			return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters")}
		}
		return nil
	})
	k.Warnings = typed.WarnOfSpec(func(c *batchv1.CronJob) []string {
		t := &c.Spec.JobTemplate.Spec.Template
		path := field.NewPath("spec", "jobTemplate", "spec", "template")
		return podspec.Warnings(&t.Spec, &t.ObjectMeta, path.Child("spec"), path.Child("metadata", "annotations"))
	})
	workload.WarnOfNames(k)
	doc := batchv1.CronJobSpec{}.SwaggerDoc()
	k.Columns = append([]metav1.TableColumnDefinition{
		column.Name(),
		column.String("Schedule", doc["schedule"]),
		column.String("Timezone", doc["timeZone"]),
		column.Boolean("Suspend", doc["suspend"]),
		column.Integer("Active", batchv1.CronJobStatus{}.SwaggerDoc()["active"]),
		column.String("Last Schedule", batchv1.CronJobStatus{}.SwaggerDoc()["lastScheduleTime"]),
		column.Age(),
	}, append(workload.PodColumns(), column.Wide(column.String("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])))...)
	k.Cells = typed.Get(func(c *batchv1.CronJob) []any {
		last := column.None
		if t := c.Status.LastScheduleTime; t != nil {
			last = column.Since(now(), t.Time)
		}
		suspend := "<unset>"
		if c.Spec.Suspend != nil {
			suspend = strings.ToUpper(strconv.FormatBool(*c.Spec.Suspend)[:1]) + strconv.FormatBool(*c.Spec.Suspend)[1:]
		}
		names, images := column.Containers(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
		return []any{
			c.Name, c.Spec.Schedule, column.Or(row.Deref(c.Spec.TimeZone), column.None), suspend, int64(len(c.Status.Active)), last,
			column.Since(now(), c.CreationTimestamp.Time), names, images, column.Selector(c.Spec.JobTemplate.Spec.Selector),
		}
	})
	return k
}

const longestCronName = 52

// validateCron lets a schedule keep its time zone, and a zone that is not known stay.
func validateCron(c, old *batchv1.CronJob) field.ErrorList {
	spec, path := &c.Spec, field.NewPath("spec")
	zoned := old != nil && strings.Contains(old.Spec.Schedule, "TZ")
	errs := validateSchedule(spec, zoned, path.Child("schedule"))
	errs = append(errs, check.NonNegative(row.Deref(spec.StartingDeadlineSeconds), path.Child("startingDeadlineSeconds"))...)
	if old == nil || !equality.Semantic.DeepEqual(spec.TimeZone, old.Spec.TimeZone) {
		errs = append(errs, validateZone(spec.TimeZone, path.Child("timeZone"))...)
	}
	errs = append(errs, check.Choice(spec.ConcurrencyPolicy, path.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	job, at := &spec.JobTemplate.Spec, path.Child("jobTemplate", "spec")
	errs = append(errs, validateSpec(job, at)...)
	if row.Deref(job.ManualSelector) {
		errs = append(errs, field.NotSupported(at.Child("manualSelector"), job.ManualSelector, []string{"nil", "false"}))
	}
	if job.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), job.Selector, "`selector` will be auto-generated"))
	}
	errs = append(errs, check.NonNegative(row.Deref(spec.SuccessfulJobsHistoryLimit), path.Child("successfulJobsHistoryLimit"))...)
	return append(errs, check.NonNegative(row.Deref(spec.FailedJobsHistoryLimit), path.Child("failedJobsHistoryLimit"))...)
}

func validateSchedule(spec *batchv1.CronJobSpec, zoned bool, path *field.Path) field.ErrorList {
	if spec.Schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if _, err := schedule.Parse(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	switch has := strings.Contains(spec.Schedule, "TZ"); {
	case has && !zoned:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case has && spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

func validateZone(zone *string, path *field.Path) field.ErrorList {
	switch {
	case zone == nil:
		return nil
	case *zone == "":
		return field.ErrorList{field.Invalid(path, *zone, "timeZone must be nil or non-empty string")}
	}
	var errs field.ErrorList
	for part := range strings.SplitSeq(*zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart(part) { // what may be no name in the files of zones is not looked for there
			return field.ErrorList{field.Invalid(path, *zone, "unknown time zone "+*zone)}
		}
	}
	if strings.EqualFold(*zone, "Local") {
		errs = append(errs, field.Invalid(path, *zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*zone); err != nil { // Local itself can be loaded, local cannot
		errs = append(errs, field.Invalid(path, *zone, "unknown time zone "+*zone))
	}
	return errs
}

// zonePart reports whether text can be an element of a time zone's name: up to 14 letters, digits and ".-_+".
func zonePart(text string) bool {
	return text != "" && len(text) <= 14 && !strings.ContainsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-_+", c))
	})
}
