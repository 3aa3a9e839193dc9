package rpc_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	os.Exit(m.Run())
}

// service answers as its functions say.
type service struct {
	apiv1.UnimplementedObjectServiceServer
	get   func(ctx context.Context) error
	watch func(ctx context.Context) error
}

func (s *service) Get(ctx context.Context, _ *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	return &apiv1.GetResponse{Object: []byte("answer")}, s.get(ctx)
}

func (s *service) Watch(_ *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	if err := stream.Send(&apiv1.WatchResponse{}); err != nil {
		return err
	}
	return s.watch(stream.Context())
}

// running is a server that runs until the test ends, or until stop.
type running struct {
	*rpc.Server
	registry *prometheus.Registry
	stop     func() // asks it to stop
	done     chan error
}

func serve(t *testing.T, listener net.Listener, tlsConfig *tls.Config, s *service) *running {
	t.Helper()
	r := &running{registry: prometheus.NewRegistry(), done: make(chan error, 1)}
	r.Server = rpc.NewServer(tlsConfig, r.registry)
	apiv1.RegisterObjectServiceServer(r, s)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	ended := make(chan struct{})
	go func() { defer close(ended); r.done <- r.ServeUntil(ctx, listener) }()
	t.Cleanup(func() { cancel(); r.Server.Stop(); <-ended })
	return r
}

// inMemory serves in memory and returns a client.
func inMemory(t *testing.T, s *service) (*running, *grpc.ClientConn) {
	t.Helper()
	listener := rpc.ListenInMemory()
	r := serve(t, listener, nil, s)
	conn, err := listener.Dial(rpc.User{Name: "alice", Groups: []string{"g1", "g2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return r, conn
}

// overTLS serves on loopback as the role of an identity and returns the address.
func overTLS(t *testing.T, id *rpc.Identity, s *service) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, id.Server(), s)
	return listener.Addr().String()
}

// cluster writes a PKI with one node and returns its folder.
func cluster(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := pki.Init(dir, pki.Options{Nodes: []string{"node1"}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func identity(t *testing.T, dir, role string) *rpc.Identity {
	t.Helper()
	id, err := rpc.LoadIdentity(filepath.Join(dir, role))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// get makes a call over a connection with the configuration.
func get(t *testing.T, address string, cfg *tls.Config) error {
	t.Helper()
	conn, err := rpc.Dial("passthrough:///"+address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return call(t, conn)
}

func call(t *testing.T, conn grpc.ClientConnInterface) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := apiv1.NewObjectServiceClient(conn).Get(ctx, &apiv1.GetRequest{})
	return err
}
