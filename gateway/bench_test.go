package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"howdah.dev/gateway"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// pod stands for an object of the usual size, 3 KB.
var pod = []byte(`{"apiVersion":"v1","kind":"Pod","data":"` + strings.Repeat("x", 3000) + `"}` + "\n")

// canned is an API server that costs nothing: what is left is the gateway's own work.
type canned struct{ events int }

func (canned) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	proto.Merge(reply.(proto.Message), &apiv1.GetResponse{Object: pod, ContentType: "application/json"})
	return nil
}

func (c canned) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &cannedStream{ctx: ctx, left: c.events}, nil
}

type cannedStream struct {
	ctx     context.Context
	left    int
	started bool
}

func (s *cannedStream) Header() (metadata.MD, error) { return nil, nil }
func (s *cannedStream) Trailer() metadata.MD         { return nil }
func (s *cannedStream) CloseSend() error             { return nil }
func (s *cannedStream) Context() context.Context     { return s.ctx }
func (s *cannedStream) SendMsg(any) error            { return nil }
func (s *cannedStream) RecvMsg(m any) error {
	r := m.(*apiv1.WatchResponse)
	if !s.started {
		s.started, r.ContentType = true, "application/json"
		return nil
	}
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	r.Events = []*apiv1.WatchEvent{{Type: "MODIFIED", Object: pod, Revision: 1}}
	return nil
}

// BenchmarkOwnGet is the gateway's own work for a get, without any wire.
func BenchmarkOwnGet(b *testing.B) {
	g, err := gateway.New(gateway.Config{Listener: noListener{}, APIServer: canned{}})
	if err != nil {
		b.Fatal(err)
	}
	for name, ctx := range map[string]context.Context{"traced": b.Context(), "untraced": obs.Untraced(b.Context())} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/namespaces/default/pods/p", nil)
			if name == "untraced" {
				r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Handler().ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// BenchmarkOwnWatchEvent is the gateway's own work for an event, without any wire.
func BenchmarkOwnWatchEvent(b *testing.B) {
	g, err := gateway.New(gateway.Config{Listener: noListener{}, APIServer: canned{events: b.N}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	g.Handler().ServeHTTP(discard{http.Header{}}, httptest.NewRequest("GET", "/api/v1/pods?watch=true", nil))
}

// static answers gets and watches from memory, over a real wire.
type static struct {
	apiv1.UnimplementedObjectServiceServer
	events int
}

func (static) Get(context.Context, *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	return &apiv1.GetResponse{Object: pod, ContentType: "application/json"}, nil
}

func (s static) Watch(_ *apiv1.WatchRequest, stream apiv1.ObjectService_WatchServer) error {
	if err := stream.Send(&apiv1.WatchResponse{ContentType: "application/json"}); err != nil {
		return err
	}
	for range s.events {
		if err := stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "MODIFIED", Object: pod}}}); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkGet compares a get over gRPC with the same through the gateway.
func BenchmarkGet(b *testing.B) {
	conn := serveStatic(b, static{})
	c := setup(b, func(config *gateway.Config) { config.APIServer = conn })
	b.Run("grpc", func(b *testing.B) {
		client := apiv1.NewObjectServiceClient(conn)
		ctx := obs.Untraced(b.Context())
		for b.Loop() {
			if _, err := client.Get(ctx, &apiv1.GetRequest{Version: "v1", Resource: "pods", Name: "p"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rest", func(b *testing.B) {
		client := c.client("admin")
		for b.Loop() {
			if got := c.do(client, "GET", "/api/v1/namespaces/default/pods/p", "", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"); got.StatusCode != 200 {
				b.Fatal(got.body)
			}
		}
	})
}

// BenchmarkWatchEvent compares an event over gRPC with the same through the gateway.
func BenchmarkWatchEvent(b *testing.B) {
	b.Run("grpc", func(b *testing.B) {
		client := apiv1.NewObjectServiceClient(serveStatic(b, static{events: b.N}))
		b.ResetTimer()
		stream, err := client.Watch(obs.Untraced(b.Context()), &apiv1.WatchRequest{Version: "v1", Resource: "pods"})
		if err != nil {
			b.Fatal(err)
		}
		for range b.N + 1 {
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rest", func(b *testing.B) {
		conn := serveStatic(b, static{events: b.N})
		c := setup(b, func(config *gateway.Config) { config.APIServer = conn })
		client := c.client("admin")
		client.Timeout = 0
		b.ResetTimer()
		body := c.watch(b.Context(), client, "/api/v1/pods?watch=true")
		defer body.Close()
		if _, err := io.Copy(io.Discard, body); err != nil {
			b.Fatal(err)
		}
	})
}

func serveStatic(b *testing.B, s static) *grpc.ClientConn {
	return dialServer(b, func(server *rpc.Server) { apiv1.RegisterObjectServiceServer(server, s) })
}

// discard is a response writer that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) Flush()                      {}

// noListener is for gateways whose handler is called directly.
type noListener struct{ net.Listener }
