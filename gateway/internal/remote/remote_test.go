package remote

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// objects answers one list and one watch; later calls fail.
type objects struct {
	list   string
	events chan *apiv1.WatchEvent
	asked  chan metadata.MD
}

type stream[T any] struct {
	grpc.ClientStream
	ctx  context.Context
	next func(ctx context.Context) (*T, error)
}

func (s stream[T]) Recv() (*T, error) { return s.next(s.ctx) }

func (o *objects) List(ctx context.Context, _ *apiv1.ListRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.ListResponse], error) {
	if o.list == "" {
		return nil, errors.New("not now")
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	o.asked <- md
	half := len(o.list) / 2
	pieces := []string{o.list[:half], o.list[half:]}
	o.list = ""
	return stream[apiv1.ListResponse]{ctx: ctx, next: func(context.Context) (*apiv1.ListResponse, error) {
		if len(pieces) == 0 {
			return nil, io.EOF
		}
		piece := pieces[0]
		pieces = pieces[1:]
		return &apiv1.ListResponse{Object: []byte(piece)}, nil
	}}, nil
}

func (o *objects) Watch(ctx context.Context, r *apiv1.WatchRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.WatchResponse], error) {
	if r.GetResourceVersion() != "7" {
		return nil, errors.New("from where?")
	}
	return stream[apiv1.WatchResponse]{ctx: ctx, next: func(ctx context.Context) (*apiv1.WatchResponse, error) {
		select {
		case e := <-o.events:
			return &apiv1.WatchResponse{Events: []*apiv1.WatchEvent{e}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}, nil
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	o := &objects{events: make(chan *apiv1.WatchEvent), asked: make(chan metadata.MD, 1), list: `{"metadata":{"resourceVersion":"7"},"items":[
		{"metadata":{"name":"v1.apps"},"spec":{"group":"apps","version":"v1"}},
		{"metadata":{"name":"v1.a.io"},"spec":{"group":"a.io","version":"v1","service":{"name":"s","namespace":"n"}}}]}`}
	s := New(o)
	if _, _, ok := s.Match("/apis/a.io/v1"); ok {
		t.Error("an empty set knows something")
	}
	impatient, giveUp := context.WithCancel(t.Context())
	giveUp()
	if s.Await(impatient, "/apis/a.io/v1") || !s.Await(impatient, "/api/v1/pods") {
		t.Error("before it is known who serves them, group versions are said to be known, or others not to be")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if md := <-o.asked; md.Get("howdah-user")[0] != user || md.Get("howdah-group")[0] != group {
		t.Errorf("asked as %v", md)
	}
	has := func(path string) func() bool {
		return func() bool { _, _, ok := s.Match(path); return ok }
	}
	if !s.Await(t.Context(), "/apis/a.io/v1/things") || !has("/apis/a.io/v1/things")() || !s.Await(impatient, "/apis/b.io/v1") {
		t.Error("what was listed is not known")
	}
	for _, path := range []string{"/apis/apps/v1/deployments", "/apis/a.io", "/apis/a.io/v2/things", "/api/v1/pods", "/apis", "/", ""} {
		if has(path)() {
			t.Errorf("%s is said to be served elsewhere", path)
		}
	}
	if g, v, _ := s.Match("/apis/a.io/v1"); g != "a.io" || v != "v1" {
		t.Errorf("%s %s", g, v)
	}
	object := `{"metadata":{"name":"v2.a.io"},"spec":{"group":"a.io","version":"v2","service":{"name":"s"}}}`
	o.events <- &apiv1.WatchEvent{Type: "ADDED", Object: []byte(object)}
	await(t, "an added one is not known", has("/apis/a.io/v2/things"))
	o.events <- &apiv1.WatchEvent{Type: "BOOKMARK", Object: []byte(`{}`)}
	o.events <- &apiv1.WatchEvent{Type: "MODIFIED", Object: []byte(`{"metadata":{"name":"v1.a.io"},"spec":{"group":"a.io","version":"v1","service":null}}`)}
	await(t, "one that lost its Service is still known", func() bool { return !has("/apis/a.io/v1")() })
	o.events <- &apiv1.WatchEvent{Type: "DELETED", Object: []byte(object)}
	await(t, "a deleted one is still known", func() bool { return !has("/apis/a.io/v2")() })
}
