package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// local serves s on a wire within the process, until the test ends or stop.
func local(t *testing.T, s *service) (client apiv1.ObjectServiceClient, stop func()) {
	t.Helper()
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	apiv1.RegisterObjectServiceServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeLocal(ctx, wire) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return apiv1.NewObjectServiceClient(wire.Dial(rpc.User{Name: "me", Groups: []string{"us"}})), stop
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestLocalCall(t *testing.T) {
	t.Parallel()
	var seen metadata.MD
	var peer rpc.User
	var span trace.SpanContext
	client, _ := local(t, &service{get: func(ctx context.Context) error {
		seen, _ = metadata.FromIncomingContext(ctx)
		peer, _ = rpc.Peer(ctx)
		span = trace.SpanContextFromContext(ctx)
		if md, _ := metadata.FromOutgoingContext(ctx); len(md) > 0 {
			t.Errorf("the handler's own calls would bear %v", md)
		}
		return grpc.SetHeader(ctx, metadata.Pairs("Warning", "careful"))
	}})
	ctx, parent := otel.Tracer("test").Start(within(t), "parent")
	defer parent.End()
	ctx = metadata.AppendToOutgoingContext(ctx, "Howdah-User", "jane")
	var header metadata.MD
	answer, err := client.Get(ctx, &apiv1.GetRequest{}, grpc.Header(&header))
	if err != nil || string(answer.GetObject()) != "answer" {
		t.Fatal(answer, err)
	}
	if got := header.Get("warning"); len(got) != 1 || got[0] != "careful" {
		t.Errorf("header %v", header)
	}
	if got := seen.Get("howdah-user"); len(got) != 1 || got[0] != "jane" {
		t.Errorf("metadata %v", seen)
	}
	if peer.Name != "me" || !peer.In("us") {
		t.Errorf("the peer is %v", peer)
	}
	if span.TraceID() != parent.SpanContext().TraceID() || span.SpanID() == parent.SpanContext().SpanID() {
		t.Errorf("the server's span %v is no descendant of %v", span, parent.SpanContext())
	}
}

func TestLocalErrors(t *testing.T) {
	t.Parallel()
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	var fail error
	panics := false
	client, _ := local(t, &service{get: func(ctx context.Context) error {
		if panics {
			panic("oh")
		}
		return fail
	}})
	fail = missing
	_, err := client.Get(within(t), &apiv1.GetRequest{})
	if s := apistatus.Of(apistatus.FromGRPC(err)); s.Code != 404 || s.Message != missing.Error() {
		t.Errorf("a Status arrives as %v", s)
	}
	panics = true
	if _, err = client.Get(within(t), &apiv1.GetRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("a panic arrives as %v", err)
	}
	if _, err = client.Delete(within(t), &apiv1.DeleteRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unimplemented method answers %v", err)
	}
	if _, err = client.Get(within(t), &apiv1.GetRequest{Name: "\xff"}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a message that cannot be encoded: %v", err)
	}
}

func TestLocalDeadlineAndCancellation(t *testing.T) {
	t.Parallel()
	client, _ := local(t, &service{get: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		watch: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Get(ctx, &apiv1.GetRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("after the deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(within(t))
	stream, err := client.Watch(ctx, &apiv1.WatchRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("after the cancellation: %v", err)
	}
}

// crowd sends n responses and then ends with an error.
type crowd struct {
	apiv1.UnimplementedObjectServiceServer
	n    int
	sent chan int
	err  error
}

func (c *crowd) List(_ *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	response := &apiv1.ListResponse{}
	for i := range c.n {
		response.Object = []byte{byte(i)} // the same message again: what is sent must stay as it is
		if err := stream.Send(response); err != nil {
			return err
		}
		c.sent <- i
	}
	return c.err
}

func TestLocalStream(t *testing.T) {
	t.Parallel()
	const n = 100
	for name, end := range map[string]error{"end": nil, "error": status.Error(codes.Aborted, "enough")} {
		t.Run(name, func(t *testing.T) {
			wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
			c := &crowd{n: n, sent: make(chan int, n), err: end}
			apiv1.RegisterObjectServiceServer(server, c)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			go func() { _ = server.ServeLocal(ctx, wire) }()
			stream, err := apiv1.NewObjectServiceClient(wire.Dial(rpc.User{})).List(within(t), &apiv1.ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			if ahead := len(c.sent); ahead > 20 {
				t.Errorf("%d messages were sent to a receiver who does not receive", ahead)
			}
			for i := range n {
				m, err := stream.Recv()
				if err != nil || m.GetObject()[0] != byte(i) {
					t.Fatalf("message %d: %v %v", i, m, err)
				}
			}
			_, err = stream.Recv()
			if end == nil && err != io.EOF || end != nil && status.Code(err) != codes.Aborted {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}

func TestLocalStop(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	entered := make(chan struct{})
	client, stop := local(t, &service{
		get:   func(context.Context) error { close(entered); <-release; return nil },
		watch: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	stream, err := client.Watch(within(t), &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client.Get(within(t), &apiv1.GetRequest{})
		answered <- err
	}()
	<-entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := client.Get(within(t), &apiv1.GetRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call after the end: %v", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call that had begun: %v", err)
	}
	<-stopped
}

func TestLocalCallsWaitForTheServer(t *testing.T) {
	t.Parallel()
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	apiv1.RegisterObjectServiceServer(server, &service{get: func(context.Context) error { return nil }})
	client := apiv1.NewObjectServiceClient(wire.Dial(rpc.User{}))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Get(ctx, &apiv1.GetRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("before: %v", err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client.Get(within(t), &apiv1.GetRequest{})
		answered <- err
	}()
	serving, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeLocal(serving, wire) }()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	end()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// BenchmarkUnary compares a call within the process with one over HTTP/2 in memory.
func BenchmarkUnary(b *testing.B) {
	s := &service{get: func(context.Context) error { return nil }}
	wire, memory := rpc.NewLocal(), rpc.ListenInMemory()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, serve := range []func(*rpc.Server){
		func(server *rpc.Server) { _ = server.ServeLocal(ctx, wire) },
		func(server *rpc.Server) { _ = server.ServeUntil(ctx, memory) },
	} {
		server := rpc.NewServer(nil, nil)
		apiv1.RegisterObjectServiceServer(server, s)
		go serve(server)
	}
	http2, err := memory.Dial(rpc.User{})
	if err != nil {
		b.Fatal(err)
	}
	for name, conn := range map[string]grpc.ClientConnInterface{"local": wire.Dial(rpc.User{}), "http2": http2} {
		client := apiv1.NewObjectServiceClient(conn)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := client.Get(ctx, &apiv1.GetRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestSink asserts that messages come in order, on the sender's goroutine, with the headers, and none after the end is told.
func TestSink(t *testing.T) {
	t.Parallel()
	const n = 50
	for name, end := range map[string]error{"end": nil, "error": status.Error(codes.Aborted, "enough")} {
		t.Run(name, func(t *testing.T) {
			wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
			apiv1.RegisterObjectServiceServer(server, &crowd{n: n, sent: make(chan int, n), err: end})
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			go func() { _ = server.ServeLocal(ctx, wire) }()
			var got []byte // unguarded: the race detector tells if somebody reads it too early
			sink := rpc.Sink(func(_ metadata.MD, m any) error {
				got = append(got, m.(*apiv1.ListResponse).GetObject()...)
				return nil
			})
			stream, err := apiv1.NewObjectServiceClient(wire.Dial(rpc.User{})).List(within(t), &apiv1.ListRequest{}, sink)
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if end == nil && err != io.EOF || end != nil && status.Code(err) != codes.Aborted {
				t.Errorf("the stream ended with %v", err)
			}
			if len(got) != n || got[0] != 0 || got[n-1] != n-1 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestSinkThatFails asserts that the sender is told, and that a client who gives up waits for the sink.
func TestSinkThatFails(t *testing.T) {
	t.Parallel()
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	apiv1.RegisterObjectServiceServer(server, &crowd{n: 10, sent: make(chan int, 10)})
	serving, stop := context.WithCancel(within(t))
	defer stop()
	go func() { _ = server.ServeLocal(serving, wire) }()
	client := apiv1.NewObjectServiceClient(wire.Dial(rpc.User{}))
	stream, err := client.List(within(t), &apiv1.ListRequest{}, rpc.Sink(func(metadata.MD, any) error { return status.Error(codes.DataLoss, "no") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.DataLoss {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(within(t))
	calls := 0
	stream, err = client.List(ctx, &apiv1.ListRequest{}, rpc.Sink(func(metadata.MD, any) error {
		calls++
		cancel()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled || calls != 1 {
		t.Errorf("%v after %d messages", err, calls)
	}
}
