package event

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func valid() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: "n"},
		EventTime:      metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		InvolvedObject: corev1.ObjectReference{Namespace: "n"},
		Reason:         "R", Action: "A", Type: corev1.EventTypeNormal, ReportingController: "a.b/c", ReportingInstance: "i",
	}
}

func TestNewEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.Event)
		want   []string
	}{
		"valid":      {func(*corev1.Event) {}, nil},
		"no time":    {func(e *corev1.Event) { e.EventTime = metav1.MicroTime{} }, []string{"eventTime"}},
		"controller": {func(e *corev1.Event) { e.ReportingController = "a b" }, []string{"reportingController"}},
		"type":       {func(e *corev1.Event) { e.Type = "Odd" }, []string{"type"}},
		"series":     {func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 1} }, []string{"series.count", "series.lastObservedTime"}},
		"what the older API has": {
			func(e *corev1.Event) {
				e.Count, e.FirstTimestamp, e.LastTimestamp, e.Source.Host = 1, metav1.Unix(1, 0), metav1.Unix(1, 0), "h"
			},
			[]string{"firstTimestamp", "lastTimestamp", "count", "source"},
		},
		"of a node, elsewhere": {func(e *corev1.Event) { e.InvolvedObject.Namespace = "" }, []string{"involvedObject.namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := valid()
			c.change(e)
			if diff := cmp.Diff(c.want, fieldsNamed(validateEvents(e, nil, nil))); diff != "" {
				t.Errorf("want (-), got (+)\n%s", diff)
			}
		})
	}
}

func TestChangedEvents(t *testing.T) {
	t.Parallel()
	old, e := valid(), valid()
	e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: old.EventTime}
	if errs := validateEvents(e, old, nil); len(errs) > 0 {
		t.Errorf("a series goes on: %v", errs)
	}
	e.Message, e.EventTime = "m", metav1.NewMicroTime(old.EventTime.Add(time.Microsecond))
	if diff := cmp.Diff([]string{"message", "eventTime"}, fieldsNamed(validateEvents(e, old, nil))); diff != "" {
		t.Errorf("want (-), got (+)\n%s", diff)
	}
	if errs := validate(e); len(errs) > 0 {
		t.Errorf("the older API lets an event change: %v", errs)
	}
}

func TestASeriesOfTheOlderAPIMayStay(t *testing.T) {
	t.Parallel()
	old, e := valid(), valid()
	old.Series, e.Series = &corev1.EventSeries{Count: 1}, &corev1.EventSeries{Count: 1}
	e.Annotations = map[string]string{"a": "b"}
	if errs := validateEvents(e, old, nil); len(errs) > 0 {
		t.Errorf("what was there is held against the change: %v", errs)
	}
	e.Series.Count = 5
	if diff := cmp.Diff([]string{"series.lastObservedTime"}, fieldsNamed(validateEvents(e, old, nil))); diff != "" {
		t.Errorf("want (-), got (+)\n%s", diff)
	}
}

func fieldsNamed(errs field.ErrorList) []string {
	var names []string
	for _, err := range errs {
		names = append(names, err.Field)
	}
	return names
}
