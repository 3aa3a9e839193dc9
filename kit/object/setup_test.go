package object_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	os.Exit(m.Run())
}

// traced returns a context in a trace of its own, and the trace's id.
func traced(t *testing.T) (context.Context, trace.TraceID) {
	t.Helper()
	ctx, span := otel.Tracer("test").Start(t.Context(), t.Name())
	t.Cleanup(func() { span.End() })
	return ctx, span.SpanContext().TraceID()
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value}}
}

// await returns the next value of a channel, or fails.
func await[V any](t *testing.T, what string, from <-chan V) V {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("the channel was closed before %s", what)
		}
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited a minute for %s", what)
	}
	panic("unreachable")
}

// faulty is an API whose lists are counted and whose watches fail on demand.
type faulty struct {
	*objecttest.Server
	lists, watches atomic.Int32
	refuse         chan error  // each error refuses one watch
	cut            chan error  // ends a watch that stands, with nil without a word
	from           chan string // the revision that each watch starts at
	gather         chan int64  // how long each watch gathers changes, in ms
}

func startFaulty(t *testing.T) (*faulty, *object.Client) {
	t.Helper()
	f := &faulty{Server: objecttest.New(), refuse: make(chan error, 10), cut: make(chan error), from: make(chan string, 100), gather: make(chan int64, 100)}
	listener, server := rpc.ListenInMemory(), rpc.NewServer(nil, prometheus.NewRegistry())
	apiv1.RegisterObjectServiceServer(server, f)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ServeUntil(ctx, listener) }()
	conn, err := listener.Dial(rpc.User{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = conn.Close(); server.Stop(); <-done })
	return f, object.NewClient(conn, "test")
}

func (f *faulty) List(r *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	f.lists.Add(1)
	return f.Server.List(r, stream)
}

func (f *faulty) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	f.watches.Add(1)
	f.from <- r.GetResourceVersion()
	f.gather <- r.GetGatherMilliseconds()
	select {
	case err := <-f.refuse:
		return err
	default:
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		select {
		case err := <-f.cut:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := f.Server.Watch(r, cuttable{stream, ctx})
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// cuttable is a stream whose context can end before the caller's.
type cuttable struct {
	grpc.ServerStreamingServer[apiv1.WatchResponse]
	ctx context.Context
}

func (c cuttable) Context() context.Context { return c.ctx }

// follow runs a set of informers until the test ends, and waits for its caches.
func follow(t *testing.T, set *object.Informers) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = set.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	wait, cancelWait := context.WithTimeout(t.Context(), time.Minute)
	defer cancelWait()
	if !set.Wait(wait) {
		t.Fatal("the caches did not fill in a minute")
	}
}
