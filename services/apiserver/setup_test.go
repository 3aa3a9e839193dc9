package apiserver

import (
	"context"
	"fmt"
	"io"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// memory is a backend without a database.
type memory struct{ *memstore.Store }

func (memory) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// fixture is a running apiserver and a client of it.
type fixture struct {
	t      testing.TB
	server *Server
	listen rpc.InMemory
	api    apiv1.ObjectServiceClient
	docs   apiv1.DiscoveryServiceClient
	ctx    context.Context
}

// startMemory runs an apiserver over a store in memory.
func startMemory(t testing.TB, configure ...func(*Config)) *fixture {
	return start(t, memory{memstore.New()}, configure...)
}

// startPostgres runs an apiserver over a database of its own.
func startPostgres(t testing.TB, configure ...func(*Config)) *fixture {
	url := pgtest.New(t, pgtest.Template{Name: "apiserver", Setup: func(ctx context.Context, url string) error {
		return migrations.Apply(ctx, url)
	}})
	return start(t, nil, append(configure, func(c *Config) { c.DatabaseURL = url })...)
}

func start(t testing.TB, st backend, configure ...func(*Config)) *fixture {
	t.Helper()
	cfg := Config{
		RuntimeConfig: []string{"api/all=true", "api/legacy=true"},
		Features:      map[string]bool{"ClusterTrustBundle": true, "StorageVersionMigrator": true, "PodCertificateRequest": true, "GenericWorkload": true},
	}
	for _, c := range configure {
		c(&cfg)
	}
	var server *Server
	var err error
	if st == nil {
		server, err = New(cfg)
	} else if err = cfg.complete(); err == nil {
		server, err = build(cfg, st)
	}
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, server)
}

func serve(t testing.TB, server *Server) *fixture {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	grpcServer := rpc.NewServer(nil, nil)
	server.Register(grpcServer)
	listen := rpc.ListenInMemory()
	served := make(chan error, 1)
	go func() { served <- grpcServer.ServeUntil(ctx, listen) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
		<-served
	})
	select {
	case <-server.Ready():
	case err := <-ran:
		ran <- err
		t.Fatalf("run: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the server does not become ready")
	}
	f := &fixture{t: t, server: server, listen: listen, ctx: t.Context()}
	conn := f.dial(rpc.User{Name: "admin", Groups: []string{"system:masters"}})
	f.api, f.docs = apiv1.NewObjectServiceClient(conn), apiv1.NewDiscoveryServiceClient(conn)
	return f
}

func (f *fixture) dial(user rpc.User) *grpc.ClientConn {
	f.t.Helper()
	conn, err := f.listen.Dial(user)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// split turns "apps/v1/deployments" or "v1/pods" into group, version and resource.
func split(resource string) (group, version, name string) {
	parts := strings.Split(resource, "/")
	if len(parts) == 2 {
		return "", parts[0], parts[1]
	}
	return parts[0], parts[1], parts[2]
}

func (f *fixture) create(resource, namespace, body string) ([]byte, error) {
	g, v, r := split(resource)
	if rest, ok := strings.CutPrefix(body, `{"metadata":`); ok {
		body = f.typeOf(g, v, r) + rest
	}
	resp, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: g, Version: v, Resource: r, Namespace: namespace, Object: []byte(body)})
	return resp.GetObject(), apistatus.FromGRPC(err)
}

// typeOf begins a body that says of what kind it is, as that of a custom resource must.
func (f *fixture) typeOf(group, version, resource string) string {
	found := f.server.objects.Table.Find(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	if found == nil || found.Kind.Custom == nil {
		return `{"metadata":`
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":`, group+"/"+version, found.GVK.Kind)
}

func (f *fixture) get(resource, namespace, name string) ([]byte, error) {
	g, v, r := split(resource)
	resp, err := f.api.Get(f.ctx, &apiv1.GetRequest{Group: g, Version: v, Resource: r, Namespace: namespace, Name: name})
	return resp.GetObject(), apistatus.FromGRPC(err)
}

func (f *fixture) list(req *apiv1.ListRequest) ([]byte, error) {
	stream, err := f.api.List(f.ctx, req)
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	var body []byte
	for {
		piece, err := stream.Recv()
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, apistatus.FromGRPC(err)
		}
		body = append(body, piece.GetObject()...)
	}
}
