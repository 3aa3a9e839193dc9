package object

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"

	"howdah.dev/kit/recent"
)

const (
	// seriesEnd is how long an event must not repeat for its series to be over.
	seriesEnd = 6 * time.Minute
	// seriesMax is how many events are remembered at least, to see that they repeat.
	seriesMax = 4096
)

// Reporter records events as those of events.k8s.io are: each says what was done (the action), and may say to what else it is related. One that repeats
// becomes a series. Kubernetes' scheduler tells its events so, its controllers as a record.EventRecorder does.
type Reporter struct {
	r        *recorder
	instance string
}

// NewReporter is Recorder for events of that form.
func NewReporter(client *Client, component string) (Reporter, Sender) {
	r, send := newRecorder(client, corev1.EventSource{Component: component})
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Reporter{r, component + "-" + host}, send
}

// Eventf records an event. related may be nil.
func (r Reporter) Eventf(about, related runtime.Object, eventType, reason, action, format string, args ...any) {
	ref, err := reference.GetReference(Scheme, about)
	if err == nil && !recordutil.ValidateEventType(eventType) {
		err = fmt.Errorf("event type %q is neither Normal nor Warning", eventType)
	}
	if err != nil {
		slog.Error("record an event", "reason", reason, "action", action, "err", err)
		return
	}
	now := time.Now()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ref.Namespace, Name: recordutil.GenerateEventName(ref.Name, now.UnixNano())},
		InvolvedObject: *ref, Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...), Action: action,
		EventTime: metav1.NewMicroTime(now), ReportingController: r.r.source.Component, ReportingInstance: r.instance,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if related != nil {
		if event.Related, err = reference.GetReference(Scheme, related); err != nil {
			slog.Error("record what an event is related to", "reason", reason, "action", action, "err", err)
		}
	}
	r.r.put(event)
}

// seriesKey is the same for events that are one series. What they say may differ: the first is told.
type seriesKey struct {
	eventType, action, reason, controller, instance string
	about, related                                  corev1.ObjectReference
}

func seriesOf(e *corev1.Event) seriesKey {
	key := seriesKey{e.Type, e.Action, e.Reason, e.ReportingController, e.ReportingInstance, e.InvolvedObject, corev1.ObjectReference{}}
	if e.Related != nil {
		key.related = *e.Related
	}
	return key
}

// series knows which events repeat. The first repetition is told; of the others how many they were, when the series goes on after a while. It is used
// by one goroutine.
type series struct {
	known recent.Map[seriesKey, *corev1.Event]
}

func newSeries() *series {
	return &series{known: recent.Map[seriesKey, *corev1.Event]{Max: seriesMax}}
}

// see returns what is to be written of an event that has just happened; false where that is nothing for now.
func (s *series) see(e *corev1.Event) (eventWrite, bool) {
	key := seriesOf(e)
	first, known := s.known.Get(key)
	if !known || e.EventTime.Sub(lastOf(first)) > seriesEnd {
		s.known.Put(key, e)
		return eventWrite{event: e.DeepCopy()}, true
	}
	told := time.Time{}
	if first.Series == nil {
		first.Series = &corev1.EventSeries{Count: 1}
	} else {
		told = first.Series.LastObservedTime.Time
	}
	first.Series.Count++
	if !told.IsZero() && e.EventTime.Sub(told) < seriesEnd/2 {
		return eventWrite{}, false
	}
	first.Series.LastObservedTime = e.EventTime
	patch, err := json.Marshal(map[string]any{"series": first.Series})
	if err != nil { // plain data always encodes
		return eventWrite{}, false
	}
	return eventWrite{event: first.DeepCopy(), patch: patch}, true
}

// lastOf is when the last of a series was told, or its only one happened.
func lastOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return e.EventTime.Time
}
