package event

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/registry"
)

// validateEvents checks an event that is written through events.k8s.io/v1, which asks for more than the older API.
func validateEvents(obj, old registry.Object, meta field.ErrorList) field.ErrorList {
	e := obj.(*corev1.Event)
	errs := append(validateBoth(e, "reportingController"), meta...)
	if old == nil {
		return append(append(errs, validateSeries(e)...), validateNew(e)...)
	}
	was := old.(*corev1.Event)
	if !equality.Semantic.DeepEqual(e.Series, was.Series) { // the older API takes any
		errs = append(errs, validateSeries(e)...)
	}
	return append(errs, validateSame(e, was)...)
}

// validateSeries wants of a series, if there is one, that something was repeated, and when.
func validateSeries(e *corev1.Event) field.ErrorList {
	if e.Series == nil {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("series")
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(path.Child("count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(path.Child("lastObservedTime"), ""))
	}
	return errs
}

// validateNew wants a new event to say when it was, and nothing of what the older API told it by.
func validateNew(e *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+e.Type))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !e.FirstTimestamp.IsZero()},
		{"lastTimestamp", !e.LastTimestamp.IsZero()},
		{"count", e.Count != 0},
		{"source", e.Source != corev1.EventSource{}},
	} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateSame holds an event to what it said; only its series may go on.
func validateSame(e, old *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject},
		{"reason", e.Reason, old.Reason},
		{"message", e.Message, old.Message},
		{"source", e.Source, old.Source},
		{"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp},
		{"count", e.Count, old.Count},
		{"reason", e.Reason, old.Reason}, // Kubernetes tells it twice
		{"type", e.Type, old.Type},
		{"eventTime", e.EventTime, old.EventTime},
		{"action", e.Action, old.Action},
		{"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, check.Same(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}
