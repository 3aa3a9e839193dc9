package apiserver

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// watching is a watch whose events a test reads one by one.
type watching struct {
	t      testing.TB
	events chan *apiv1.WatchEvent
	ended  chan error
	cancel context.CancelFunc
}

// open starts a watch and waits until it stands.
func (f *fixture) open(t testing.TB, req *apiv1.WatchRequest) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	t.Cleanup(cancel)
	stream, err := f.api.Watch(ctx, req)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
	w := &watching{t: t, events: make(chan *apiv1.WatchEvent, 100_000), ended: make(chan error, 1), cancel: cancel}
	go func() {
		for {
			resp, err := stream.Recv()
			if err != nil {
				w.ended <- err
				return
			}
			for _, e := range resp.GetEvents() {
				w.events <- e
			}
		}
	}()
	return w
}

func (w *watching) next() *apiv1.WatchEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		return e
	case err := <-w.ended:
		select {
		case e := <-w.events: // that came before the end
			w.ended <- err
			return e
		default:
			w.t.Fatalf("the watch ended: %v", err)
		}
	case <-time.After(time.Minute):
		w.t.Fatal("no event came")
	}
	return nil
}

func (w *watching) expect(kind string, obj *unstructured.Unstructured) {
	w.t.Helper()
	e := w.next()
	got := &unstructured.Unstructured{}
	if err := got.UnmarshalJSON(e.GetObject()); err != nil {
		w.t.Fatal(err)
	}
	if e.GetType() != kind || got.GetName() != obj.GetName() || got.GetResourceVersion() != obj.GetResourceVersion() {
		w.t.Fatalf("event %s of %s at %s, wanted %s of %s at %s", e.GetType(), got.GetName(), got.GetResourceVersion(),
			kind, obj.GetName(), obj.GetResourceVersion())
	}
}

func (w *walker) watch() *watching {
	return w.open(w.t, &apiv1.WatchRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, LabelSelector: "walk=yes",
	})
}
