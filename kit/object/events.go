package object

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
)

// eventQueue is how many events wait to be sent; what comes beyond is
// dropped, since nobody may wait for an event.
const eventQueue = 20_000

// Recorder returns a recorder of Kubernetes events and the function that
// sends them until ctx ends. Events are aggregated and limited per source and
// object as Kubernetes' components do it, and sent in batches. Recording
// never waits, and works before the function runs.
func Recorder(client *Client, component, host string) (record.EventRecorder, func(ctx context.Context) error) {
	return newRecorder(client, corev1.EventSource{Component: component, Host: host})
}

// Sender sends events until ctx ends.
type Sender = func(ctx context.Context) error

func newRecorder(client *Client, source corev1.EventSource) (*recorder, Sender) {
	r := &recorder{source: source, queue: make(chan *corev1.Event, eventQueue)}
	return r, func(ctx context.Context) error { return newEventSender(For(client, Event), r.queue).run(ctx) }
}

// recorder makes events and queues them.
type recorder struct {
	source corev1.EventSource
	queue  chan *corev1.Event
}

// Event implements record.EventRecorder.
func (r *recorder) Event(about runtime.Object, eventType, reason, message string) {
	r.record(about, nil, eventType, reason, message)
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.record(about, nil, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(about runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	r.record(about, annotations, eventType, reason, fmt.Sprintf(format, args...))
}

func (r *recorder) record(about runtime.Object, annotations map[string]string, eventType, reason, message string) {
	ref, err := reference.GetReference(Scheme, about)
	if err == nil && !recordutil.ValidateEventType(eventType) {
		err = fmt.Errorf("event type %q is neither Normal nor Warning", eventType)
	}
	if err != nil {
		slog.Error("record an event", "reason", reason, "message", message, "err", err)
		return
	}
	now := metav1.Now()
	namespace := ref.Namespace
	if namespace == "" { // events about cluster-scoped objects
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: recordutil.GenerateEventName(ref.Name, now.UnixNano()), Annotations: annotations},
		InvolvedObject: *ref, Type: eventType, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: r.source, ReportingController: r.source.Component, ReportingInstance: r.source.Host,
	}
	r.put(event)
}

func (r *recorder) put(event *corev1.Event) {
	select {
	case r.queue <- event:
	default:
		about := event.InvolvedObject
		slog.Warn("too many events are queued; one was dropped", "kind", about.Kind, "namespace", about.Namespace, "name", about.Name, "reason", event.Reason)
	}
}

const (
	// eventBatch is the most events that one call carries, and eventWait how
	// long the first of them waits for others.
	eventBatch = 500
	eventWait  = 5 * time.Millisecond
	// eventTries is how often a batch is sent; the back-off between doubles
	// from eventBackoff to lastEventBackoff.
	eventTries       = 12
	eventBackoff     = 100 * time.Millisecond
	lastEventBackoff = 10 * time.Second
	// eventFlush bounds the writing of what is queued when the sender ends.
	eventFlush = 3 * time.Second
)
