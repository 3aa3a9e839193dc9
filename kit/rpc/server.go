package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/stack"
)

// stopTimeout bounds a graceful stop: watches never end by themselves.
const stopTimeout = 5 * time.Second

// Server is a gRPC server with health and reflection. Services register on
// it before Serve.
type Server struct {
	*grpc.Server
	health *health.Server
	local  localService
}

// NewServer returns a server that answers over TLS, or, with a nil
// configuration, to in-memory connections only. Its metrics are registered
// with registerer.
func NewServer(tlsConfig *tls.Config, registerer prometheus.Registerer) *Server {
	transport := credentials.TransportCredentials(memoryCredentials{})
	if tlsConfig != nil {
		transport = credentials.NewTLS(tlsConfig)
	}
	calls := newCallMetrics(registerer)
	observer := otelgrpc.NewServerHandler(otelgrpc.WithFilter(traced))
	server := grpc.NewServer(
		grpc.Creds(transport),
		grpc.StatsHandler(deepened{observer}),
		grpc.ChainUnaryInterceptor(calls.unary, statusUnary),
		grpc.ChainStreamInterceptor(calls.stream, statusStream),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxConcurrentStreams(10_000),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(4<<20),
	)
	s := &Server{Server: server, health: health.NewServer()}
	s.local = localService{
		unary: map[string]localUnary{}, stream: map[string]localHandler{}, stats: observer,
		aroundUnary: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return calls.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) { return statusUnary(ctx, req, info, handler) })
		},
		aroundStream: func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return calls.stream(srv, stream, info, func(srv any, stream grpc.ServerStream) error { return statusStream(srv, stream, info, handler) })
		},
	}
	s.health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(server, s.health)
	reflection.Register(server)
	return s
}

// SetReady says over the health service whether the server serves.
func (s *Server) SetReady(ready bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
}

// Ready reports whether the health service says that the server serves.
func (s *Server) Ready() bool {
	answer, err := s.health.Check(context.Background(), &healthv1.HealthCheckRequest{})
	return err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
}

// ServeUntil serves on the listener until ctx ends, then stops: not ready
// first, then gracefully, and after 5 s at once.
func (s *Server) ServeUntil(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		s.health.Shutdown()
		timer := time.AfterFunc(stopTimeout, s.Server.Stop)
		defer timer.Stop()
		s.Server.GracefulStop()
	})
	defer stop()
	if err := s.Server.Serve(listener); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// deepened makes room on the stacks of calls: that a call is tagged is the first that its goroutine does with what is ours.
type deepened struct{ stats.Handler }

func (d deepened) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	stack.Deepen()
	return d.Handler.TagRPC(ctx, info)
}

// traced leaves health checks and reflection out of the traces.
func traced(info *stats.RPCTagInfo) bool {
	return !strings.HasPrefix(info.FullMethodName, "/grpc.")
}

func statusUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = recovered(ctx, info.FullMethod, r)
		}
		err = apistatus.ToGRPC(err)
	}()
	return handler(ctx, req)
}

func statusStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = recovered(stream.Context(), info.FullMethod, r)
		}
		err = apistatus.ToGRPC(err)
	}()
	return handler(srv, stream)
}

// recovered turns a panic into a 500 that names the trace.
func recovered(ctx context.Context, method string, panicked any) error {
	slog.ErrorContext(ctx, "panic in a handler", "method", method, "err", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return apierrors.NewInternalError(fmt.Errorf("this request caused the server to panic (trace %s)",
		trace.SpanContextFromContext(ctx).TraceID()))
}
