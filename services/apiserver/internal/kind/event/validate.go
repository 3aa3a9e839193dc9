package event

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// The lengths, in bytes, that the newer API allows.
const (
	maxInstance = 128
	maxAction   = 128
	maxReason   = 128
	maxNote     = 1024
)

func validate(e *corev1.Event) field.ErrorList {
	// An event time is what tells events of the newer API.
	if e.EventTime.IsZero() {
		return validateNamespace(e)
	}
	var errs field.ErrorList
	if e.InvolvedObject.Namespace == "" {
		errs = validateNamespace(e)
	}
	controller, instance := field.NewPath("reportingComponent"), field.NewPath("reportingInstance")
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	errs = append(errs, check.QualifiedName(e.ReportingController, controller)...)
	errs = append(errs, sized(e.ReportingInstance, maxInstance, instance)...)
	errs = append(errs, sized(e.Action, maxAction, field.NewPath("action"))...)
	errs = append(errs, sized(e.Reason, maxReason, field.NewPath("reason"))...)
	if len(e.Message) > maxNote {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %v characters", maxNote)))
	}
	return errs
}

// sized wants a text of 1 to most bytes.
func sized(s string, most int, path *field.Path) field.ErrorList {
	switch {
	case s == "":
		return field.ErrorList{field.Required(path, "")}
	case len(s) > most:
		return field.ErrorList{field.Invalid(path, "", fmt.Sprintf("can have at most %v characters", most))}
	}
	return nil
}

// validateNamespace wants an event where the object is that it is about, and
// those about cluster-wide objects in one of two namespaces.
func validateNamespace(e *corev1.Event) field.ErrorList {
	ref := e.InvolvedObject.Namespace
	if ref == e.Namespace {
		return nil
	}
	if ref == "" && (e.Namespace == metav1.NamespaceDefault || e.Namespace == metav1.NamespaceSystem) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), ref, "does not match event.namespace")}
}

// validateUpdate holds events of the newer API to what they said; their series
// may go on.
func validateUpdate(e, old *corev1.Event) field.ErrorList {
	if e.EventTime.IsZero() && old.EventTime.IsZero() {
		return nil
	}
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
		{"type", e.Type, old.Type},
		{"action", e.Action, old.Action},
		{"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, check.Same(f.now, f.was, field.NewPath(f.name))...)
	}
	// Stored times have seconds only where they came through the older API.
	if !e.EventTime.Truncate(time.Second).Equal(old.EventTime.Truncate(time.Second)) {
		errs = append(errs, check.Same(e.EventTime, old.EventTime, field.NewPath("eventTime"))...)
	}
	return errs
}
