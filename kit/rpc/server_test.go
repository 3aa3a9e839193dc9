package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestPeerInMemory(t *testing.T) {
	t.Parallel()
	seen := make(chan rpc.User, 1)
	_, conn := inMemory(t, &service{get: func(ctx context.Context) error {
		user, ok := rpc.Peer(ctx)
		if !ok {
			t.Error("no peer")
		}
		seen <- user
		return nil
	}})
	if err := call(t, conn); err != nil {
		t.Fatal(err)
	}
	if user := <-seen; user.Name != "alice" || !user.In("g2") || user.In("g3") {
		t.Errorf("the peer is %+v", user)
	}
	if _, ok := rpc.Peer(t.Context()); ok {
		t.Error("a context of no call has a peer")
	}
	if user, ok := rpc.Peer(rpc.WithUser(t.Context(), rpc.User{Name: "bob"})); !ok || user.Name != "bob" {
		t.Errorf("WithUser: %+v, %t", user, ok)
	}
}

func TestStatusSurvivesTheWire(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "p", errors.New("modified"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Required(field.NewPath("spec", "containers"), "")})
	var fail error
	server, conn := inMemory(t, &service{get: func(context.Context) error { return fail }})
	for _, tt := range []struct {
		err    error
		want   metav1.Status
		code   codes.Code
		reason metav1.StatusReason
	}{
		{apierrors.NewNotFound(pods, "p"), apierrors.NewNotFound(pods, "p").ErrStatus, codes.NotFound, metav1.StatusReasonNotFound},
		{conflict, conflict.ErrStatus, codes.Aborted, metav1.StatusReasonConflict},
		{invalid, invalid.ErrStatus, codes.InvalidArgument, metav1.StatusReasonInvalid},
		{apierrors.NewResourceExpired("too old"), apierrors.NewResourceExpired("too old").ErrStatus, codes.OutOfRange, metav1.StatusReasonExpired},
		{errors.New("plain"), apierrors.NewInternalError(errors.New("plain")).ErrStatus, codes.Internal, metav1.StatusReasonInternalError},
	} {
		fail = tt.err
		wire := call(t, conn)
		if status.Code(wire) != tt.code {
			t.Errorf("%v: code %s, want %s", tt.err, status.Code(wire), tt.code)
		}
		got := apistatus.FromGRPC(wire)
		if apierrors.ReasonForError(got) != tt.reason || got.Error() != tt.want.Message {
			t.Errorf("%v: came back as %v (%s)", tt.err, got, apierrors.ReasonForError(got))
		}
		if s := apistatus.Of(got); s.Code != tt.want.Code || (s.Details == nil) != (tt.want.Details == nil) || s.Details != nil && len(s.Details.Causes) != len(tt.want.Details.Causes) {
			t.Errorf("%v: details %+v, want %+v", tt.err, s.Details, tt.want.Details)
		}
	}
	if n := testutil.CollectAndCount(server.registry, "grpc_server_handled_total"); n != 5 {
		t.Errorf("calls are counted in %d series, want one a code", n)
	}
	if n := testutil.CollectAndCount(server.registry, "grpc_server_handling_seconds"); n != 1 {
		t.Errorf("%d histograms, want one", n)
	}
}

func TestPanicIsAnInternalErrorThatNamesItsTrace(t *testing.T) {
	t.Parallel()
	boom := func(context.Context) error { panic("boom") }
	_, conn := inMemory(t, &service{get: boom, watch: boom})
	ctx, span := otel.Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	check := func(what string, err error) {
		t.Helper()
		err = apistatus.FromGRPC(err)
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), span.SpanContext().TraceID().String()) {
			t.Errorf("%s: got %v, want an internal error that names trace %s", what, err, span.SpanContext().TraceID())
		}
		if err != nil && strings.Contains(err.Error(), "boom") {
			t.Errorf("%s: the panic's value went to the caller", what)
		}
	}
	client := apiv1.NewObjectServiceClient(conn)
	_, err := client.Get(ctx, &apiv1.GetRequest{})
	check("unary", err)
	stream, err := client.Watch(ctx, &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	check("stream", err)
	if _, err := client.Get(ctx, &apiv1.GetRequest{}); err == nil {
		t.Error("the server did not survive")
	}
}

func TestTraceContextCrossesTheWire(t *testing.T) {
	t.Parallel()
	seen := make(chan trace.SpanContext, 1)
	_, conn := inMemory(t, &service{get: func(ctx context.Context) error { seen <- trace.SpanContextFromContext(ctx); return nil }})
	ctx, span := otel.Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	if _, err := apiv1.NewObjectServiceClient(conn).Get(ctx, &apiv1.GetRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got.TraceID() != span.SpanContext().TraceID() || got.SpanID() == span.SpanContext().SpanID() {
		t.Errorf("the handler is in %v, want a child in trace %v", got, span.SpanContext().TraceID())
	}
}

func TestHealthAndGracefulStop(t *testing.T) {
	t.Parallel()
	watching, goOn := make(chan struct{}), make(chan struct{})
	server, conn := inMemory(t, &service{watch: func(ctx context.Context) error {
		close(watching)
		select {
		case <-goOn: // a stream that ends when it is told that the server stops
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, get: func(context.Context) error { return nil }})
	health := healthv1.NewHealthClient(conn)
	updates, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := updates.Recv(); err != nil || got.GetStatus() != want {
			t.Fatalf("health is %v (%v), want %s", got, err, want)
		}
		if ready := want == healthv1.HealthCheckResponse_SERVING; server.Ready() != ready {
			t.Fatalf("ready: %v, want %v", !ready, ready)
		}
	}
	expect(healthv1.HealthCheckResponse_NOT_SERVING)
	server.SetReady(true)
	expect(healthv1.HealthCheckResponse_SERVING)
	server.SetReady(false)
	expect(healthv1.HealthCheckResponse_NOT_SERVING)
	server.SetReady(true)
	expect(healthv1.HealthCheckResponse_SERVING)

	stream, err := apiv1.NewObjectServiceClient(conn).Watch(t.Context(), &apiv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-watching
	server.stop()
	expect(healthv1.HealthCheckResponse_NOT_SERVING) // before the streams end
	// The client hears of it a moment later.
	err = call(t, conn)
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); err = call(t, conn) {
		time.Sleep(time.Millisecond)
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a new call while it stops: %v, want Unavailable", err)
	}
	err = nil
	close(goOn)
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the open stream ended with %v: it must be let finish", err)
	}
}

func TestStopDoesNotWaitForEverForAStream(t *testing.T) {
	t.Parallel()
	watching := make(chan struct{})
	server, conn := inMemory(t, &service{watch: func(ctx context.Context) error {
		close(watching)
		<-ctx.Done()
		return ctx.Err()
	}})
	if _, err := apiv1.NewObjectServiceClient(conn).Watch(t.Context(), &apiv1.WatchRequest{}); err != nil {
		t.Fatal(err)
	}
	<-watching
	start := time.Now()
	server.stop()
	select {
	case err := <-server.done:
		if took := time.Since(start); err != nil || took < 4*time.Second {
			t.Errorf("stopped after %s with %v; a stream has 5 s", took, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a stream that does not end keeps the server")
	}
}
