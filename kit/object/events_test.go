package object_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func eventPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name)}}
}

// recording sends a recorder's events to api; stop ends it.
func recording(t *testing.T, api *objecttest.Server) (r record.EventRecorder, client *object.Client, stop func()) {
	t.Helper()
	client = api.Serve(t)
	r, send := object.Recorder(client, "tester", "host-1")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = send(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return r, client, stop
}

// awaitEvents waits until enough says that the stored events will do.
func awaitEvents(t *testing.T, client *object.Client, enough func([]*corev1.Event) bool) []*corev1.Event {
	t.Helper()
	events := object.For(client, object.Event)
	w, err := events.Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		all, _, err := events.List(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if enough(all) {
			return all
		}
		await(t, "another event", w.ResultChan())
	}
}

func TestRecorderWritesAWholeEvent(t *testing.T) {
	t.Parallel()
	r, client, _ := recording(t, objecttest.New())
	r.AnnotatedEventf(eventPod("p"), map[string]string{"note": "x"}, "Warning", "Failed", "try %d", 3)
	r.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Normal", "Ready", "m")
	r.Event(eventPod("p"), "Strange", "Never", "this type does not exist")
	all := awaitEvents(t, client, func(all []*corev1.Event) bool { return len(all) == 2 })
	for _, e := range all {
		switch e.InvolvedObject.Kind {
		case "Pod":
			if e.Namespace != "a" || e.InvolvedObject.UID != "uid-p" || e.InvolvedObject.APIVersion != "v1" || e.Message != "try 3" || e.Reason != "Failed" ||
				e.Type != "Warning" || e.Annotations["note"] != "x" || e.Count != 1 || e.FirstTimestamp.IsZero() ||
				e.Source != (corev1.EventSource{Component: "tester", Host: "host-1"}) || e.ReportingController != "tester" || e.ReportingInstance != "host-1" {
				t.Errorf("the pod's event is %+v", e)
			}
		case "Node":
			if e.Namespace != "default" {
				t.Errorf("the event of a cluster-scoped object is in namespace %q", e.Namespace)
			}
		default:
			t.Errorf("unexpected event %+v", e)
		}
	}
}

func TestRecorderCountsWhatRepeats(t *testing.T) {
	t.Parallel()
	r, client, _ := recording(t, objecttest.New())
	count := func(n int32) func([]*corev1.Event) bool {
		return func(all []*corev1.Event) bool { return len(all) == 1 && all[0].Count == n }
	}
	for range 3 { // in one batch, or in several
		r.Event(eventPod("p"), "Warning", "BackOff", "again")
	}
	awaitEvents(t, client, count(3))
	for range 2 { // counted up by a patch
		r.Event(eventPod("p"), "Warning", "BackOff", "again")
	}
	all := awaitEvents(t, client, count(5))

	// An event that has expired in the API is made anew, with its count.
	if err := object.For(client, object.Event).Delete(t.Context(), "a", all[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Event(eventPod("p"), "Warning", "BackOff", "again")
	awaitEvents(t, client, count(6))
}

func TestRecorderLimitsAndAggregates(t *testing.T) {
	t.Parallel()
	r, client, stop := recording(t, objecttest.New())
	for i := range 100 { // alike but for their messages: 25 pass the limit, 9 of them apart
		r.Eventf(eventPod("p"), "Warning", "Unhealthy", "probe %d failed", i)
	}
	stop()
	all := awaitEvents(t, client, func(all []*corev1.Event) bool { return len(all) > 0 })
	combined := int32(0)
	for _, e := range all {
		if e.Count > 1 {
			combined = e.Count
		}
	}
	if len(all) != 10 || combined != 16 {
		t.Errorf("%d events, one of them counts %d; want 10 and 16", len(all), combined)
	}
}

func TestRecorderRetriesWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	var refusals atomic.Int32
	refusals.Store(3)
	api.Intercept = func(w objecttest.Write) error {
		if w.Resource != "events" {
			return nil
		}
		if w.Object.(*corev1.Event).Reason == "Refused" {
			return apierrors.NewForbidden(object.Event.GroupResource(), w.Name, nil)
		}
		if refusals.Add(-1) >= 0 {
			return apierrors.NewServiceUnavailable("restarting")
		}
		return nil
	}
	r, client, _ := recording(t, api)
	for i := range 10 {
		r.Event(eventPod(fmt.Sprint("p", i)), "Normal", "Started", "m")
		r.Event(eventPod(fmt.Sprint("p", i)), "Normal", "Refused", "m")
	}
	awaitEvents(t, client, func(all []*corev1.Event) bool { return len(all) == 10 })
	if refusals.Load() >= 0 {
		t.Error("the server was not away at all")
	}
}

func TestRecorderLosesNothingInABurstNorAtTheEnd(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	client := api.Serve(t)
	r, send := object.Recorder(client, "tester", "")
	const burst = 1000
	for i := range burst { // before the sender runs: recording never waits
		r.Event(eventPod(fmt.Sprint("p", i)), "Normal", "Scheduled", "m")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := send(ctx); err == nil {
		t.Error("the sender ends with its context's error")
	}
	if n := api.Revision(); n != burst {
		t.Errorf("%d of %d events were written", n, burst)
	}
	if n := api.Calls("batch"); n > burst/500+1 {
		t.Errorf("%d calls for %d events", n, burst)
	}
}
