// Package event is the kind Event: stored as core v1, served as events.k8s.io/v1 too.
package event

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

var stored = corev1.SchemeGroupVersion.WithKind("Event")

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      stored,
		Resource: "events", Singular: "event", ShortNames: []string{"ev"}, Namespaced: true,
		New:     func() registry.Object { return &corev1.Event{} },
		NewList: func() runtime.Object { return &corev1.EventList{} },
		Served:  []registry.Version{eventsVersion()},

		CreateOnUpdate: true,
		Newest:         true, // Kubernetes keeps no cache of them
		Ownerless:      true,
		NameIsValid:    path.ValidatePathSegmentName, // as the older API has it
		MetaIsFree:     true,
		Validate:       typed.Check(validate),

		SelectableFields: typed.Get(selectable),
		StoredAt:         storedAt(),
		Selectable:       append(fieldsOf("involvedObject"), "reportingComponent", "source"),
		Columns:          columns,
		Cells:            typed.Get(func(e *corev1.Event) []any { return cells(e, now()) }),
	}
}

// fieldsOf names the fields to select by that both APIs have; they call the object that an event is about differently.
func fieldsOf(object string) []string {
	names := []string{"reason", "type"}
	for _, part := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		names = append(names, object+"."+part)
	}
	return names
}

// storedAt is where the fields lie that clients select by: numbers of k8s.io/api/core/v1/generated.proto.
func storedAt() map[string][]int {
	out := map[string][]int{"reason": {3}, "type": {9}}
	for n, part := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} { // of an ObjectReference
		out["involvedObject."+part], out["regarding."+part] = []int{2, n + 1}, []int{2, n + 1}
	}
	return out
}

func selectable(e *corev1.Event) fields.Set {
	return fields.Set{
		"involvedObject.kind":            e.InvolvedObject.Kind,
		"involvedObject.namespace":       e.InvolvedObject.Namespace,
		"involvedObject.name":            e.InvolvedObject.Name,
		"involvedObject.uid":             string(e.InvolvedObject.UID),
		"involvedObject.apiVersion":      e.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       e.InvolvedObject.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             column.Or(e.ReportingController, e.Source.Component),
		"source":                         column.Or(e.Source.Component, e.ReportingController),
		"type":                           e.Type,
		// The names of events.k8s.io.
		"regarding.kind":            e.InvolvedObject.Kind,
		"regarding.namespace":       e.InvolvedObject.Namespace,
		"regarding.name":            e.InvolvedObject.Name,
		"regarding.uid":             string(e.InvolvedObject.UID),
		"regarding.apiVersion":      e.InvolvedObject.APIVersion,
		"regarding.resourceVersion": e.InvolvedObject.ResourceVersion,
		"regarding.fieldPath":       e.InvolvedObject.FieldPath,
		"reportingController":       column.Or(e.ReportingController, e.Source.Component),
	}
}

var docs = corev1.Event{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	column.String("Last Seen", docs["lastTimestamp"]),
	column.String("Type", docs["type"]),
	column.String("Reason", docs["reason"]),
	column.String("Object", docs["involvedObject"]),
	column.Wide(column.String("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
	column.Wide(column.String("Source", docs["source"])),
	column.String("Message", docs["message"]),
	column.Wide(column.String("First Seen", docs["firstTimestamp"])),
	column.Wide(column.String("Count", docs["count"])),
	column.Wide(column.Name()),
}

func cells(e *corev1.Event, now time.Time) []any {
	first, last := e.FirstTimestamp.Time, e.LastTimestamp.Time
	if first.IsZero() {
		first = e.EventTime.Time
	}
	seen := column.Since(now, first)
	count := e.Count
	latest := seen
	if !last.IsZero() {
		latest = column.Since(now, last)
	}
	if e.Series != nil {
		latest = column.Since(now, e.Series.LastObservedTime.Time)
		count = e.Series.Count
	} else if count == 0 {
		// An event of the newer API without a series happened once.
		count = 1
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	return []any{
		latest, e.Type, e.Reason, object, e.InvolvedObject.FieldPath, source(e),
		strings.TrimSpace(e.Message), seen, int64(count), e.Name,
	}
}

func source(e *corev1.Event) string {
	from, host := column.Or(e.Source.Component, e.ReportingController), column.Or(e.Source.Host, e.ReportingInstance)
	if host == "" {
		return from
	}
	return fmt.Sprintf("%s, %s", from, host)
}
