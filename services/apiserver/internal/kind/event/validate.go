package event

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// The lengths, in bytes, that the newer API allows.
const (
	maxInstance = 128
	maxAction   = 128
	maxReason   = 128
	maxNote     = 1024
)

// validate checks an event that is written through the older API.
func validate(e *corev1.Event) field.ErrorList { return validateBoth(e, "reportingComponent") }

// validateBoth checks what both APIs ask for; the field that names the controller is called as the API calls it.
func validateBoth(e *corev1.Event, controllerField string) field.ErrorList {
	// An event time is what tells events of the newer API.
	if e.EventTime.IsZero() {
		return validateNamespace(e, metav1.NamespaceDefault)
	}
	var errs field.ErrorList
	if e.InvolvedObject.Namespace == "" {
		errs = validateNamespace(e, metav1.NamespaceDefault, metav1.NamespaceSystem)
	}
	controller, instance := field.NewPath(controllerField), field.NewPath("reportingInstance")
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
// those about cluster-wide objects in one of the namespaces.
func validateNamespace(e *corev1.Event, clusterWide ...string) field.ErrorList {
	ref := e.InvolvedObject.Namespace
	if ref == e.Namespace {
		return nil
	}
	if ref == "" && slices.Contains(clusterWide, e.Namespace) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), ref, "does not match event.namespace")}
}
