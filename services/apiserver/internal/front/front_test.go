package front

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/flow"
)

// broken is a service that panics, and tells who asked.
type broken struct {
	apiv1.UnimplementedObjectServiceServer
	apiv1.UnimplementedDiscoveryServiceServer
	authenticator Authenticator
}

func (broken) Get(context.Context, *apiv1.GetRequest) (*apiv1.GetResponse, error) { panic("oh") }

func (broken) List(*apiv1.ListRequest, grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	panic("oh")
}

func (b broken) Document(ctx context.Context, _ *apiv1.DocumentRequest) (*apiv1.DocumentResponse, error) {
	user, err := b.authenticator.Authenticate(ctx)
	if err != nil {
		return nil, err
	}
	return &apiv1.DocumentResponse{Object: []byte(user.Name)}, nil
}

// TestUncountedWatches are those whose events cost writes nothing.
func TestUncountedWatches(t *testing.T) {
	t.Parallel()
	none := func(string, string, string) (int, int) { return 0, 0 }
	for message, want := range map[*apiv1.WatchRequest]flow.Watched{
		{Version: "v1", Resource: "pods"}:                                                         {Resource: "pods"},
		{Version: "v1", Resource: "pods", FieldSelector: "spec.nodeName="}:                        {Resource: "pods"},
		{Version: "v1", Resource: "pods", Namespace: "a", FieldSelector: "metadata.name=b"}:       {Resource: "pods", Namespace: "a", Name: "b"},
		{Group: "apps", Version: "v1", Resource: "deployments", FieldSelector: "spec.nodeName=b"}: {Group: "apps", Resource: "deployments"},
		{Version: "v1", Resource: "pods", FieldSelector: "spec.nodeName=a"}:                       {},
		{Version: "v1", Resource: "pods", Feed: true}:                                             {},
	} {
		r := read(message, none)
		if got := (flow.Watched{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}); r.Uncounted != (want == flow.Watched{}) || !r.Uncounted && got != want {
			t.Errorf("%v: %+v", message, r)
		}
	}
}

// counting counts how often somebody is authenticated.
type counting struct{ n int }

func (c *counting) Authenticate(context.Context) (*authn.User, error) {
	c.n++
	return &authn.User{Name: "jane"}, nil
}

func (c *counting) Token(context.Context, string) (*authn.User, error) {
	return nil, authn.ErrUnauthorized()
}

func TestFront(t *testing.T) {
	t.Parallel()
	authenticator := &counting{}
	panics := prometheus.NewCounter(prometheus.CounterOpts{Name: "panics"})
	var others []string
	f := New(Config{
		Authenticator: authenticator, Panics: panics, Count: func(string, string, string) (int, int) { return 0, 0 },
		Other: func(verb, _, _, _, _ string, code int32) {},
		Document: func(path string, code int32) {
			if code == 200 {
				others = append(others, path)
			}
		},
	})
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	service := broken{authenticator: Remembering{authenticator}}
	apiv1.RegisterObjectServiceServer(f.Registrar(server), service)
	apiv1.RegisterDiscoveryServiceServer(f.Registrar(server), service)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.ServeLocal(ctx, wire) }()
	defer func() { cancel(); <-served }()
	conn := wire.Dial(rpc.User{Name: "x"})

	_, err := apiv1.NewObjectServiceClient(conn).Get(t.Context(), &apiv1.GetRequest{Version: "v1", Resource: "pods", Name: "a"})
	if s := apistatus.Of(apistatus.FromGRPC(err)); s.Code != 500 || !strings.Contains(s.Message, "this request caused apiserver to panic (trace ") {
		t.Errorf("a panic: %+v", s)
	}
	stream, err := apiv1.NewObjectServiceClient(conn).List(t.Context(), &apiv1.ListRequest{Version: "v1", Resource: "pods"})
	if err == nil {
		_, err = stream.Recv()
	}
	if s := apistatus.Of(apistatus.FromGRPC(err)); s.Code != 500 {
		t.Errorf("a panic in a stream: %+v", s)
	}
	if n := testutil.ToFloat64(panics); n != 2 {
		t.Errorf("%v panics are counted", n)
	}
	before := authenticator.n
	resp, err := apiv1.NewDiscoveryServiceClient(conn).Document(t.Context(), &apiv1.DocumentRequest{Path: "/version"})
	if err != nil || string(resp.GetObject()) != "jane" || authenticator.n != before+1 {
		t.Errorf("%s %v, authenticated %d times", resp.GetObject(), err, authenticator.n-before)
	}
	if len(others) != 1 || others[0] == "" {
		t.Errorf("documents are counted as %v", others)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	count := func(string, string, string) (int, int) { return 1234, 1234 * 1000 }
	for _, tt := range []struct {
		name    string
		message any
		verb    string
		width   int
		long    bool
	}{
		{"get", &apiv1.GetRequest{Version: "v1", Resource: "pods"}, "get", 1, false},
		{"list", &apiv1.ListRequest{Version: "v1", Resource: "pods"}, "list", 10, false},
		{"list of the past", &apiv1.ListRequest{Version: "v1", Resource: "pods", ResourceVersion: "7", ResourceVersionMatch: "Exact"}, "list", 13, false},
		{"a further page by label", &apiv1.ListRequest{Version: "v1", Resource: "pods", Limit: 10, Continue: "x", LabelSelector: "a=b"}, "list", 7, false},
		{"a page", &apiv1.ListRequest{Version: "v1", Resource: "pods", Limit: 500}, "list", 5, false},
		{"a page by label", &apiv1.ListRequest{Version: "v1", Resource: "pods", Limit: 500, LabelSelector: "a=b"}, "list", 5, false},
		{"a page of all", &apiv1.ListRequest{Version: "v1", Resource: "pods", Limit: 5000}, "list", 10, false},
		{"a collection that goes", &apiv1.DeleteCollectionRequest{Version: "v1", Resource: "pods"}, "deletecollection", 1, false},
		{"one by list", &apiv1.ListRequest{Version: "v1", Resource: "pods", FieldSelector: "metadata.name=a"}, "list", 1, false},
		{"a watch with its state", &apiv1.WatchRequest{Version: "v1", Resource: "pods"}, "watch", 10, false},
		{"a watch that goes on", &apiv1.WatchRequest{Version: "v1", Resource: "pods", ResourceVersion: "7"}, "watch", 1, false},
		{"a watch of one", &apiv1.WatchRequest{Version: "v1", Resource: "pods", FieldSelector: "metadata.name=a"}, "watch", 1, false},
		{"exec", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Version: "v1", Resource: "pods", Subresource: "exec", Method: "POST"}}}, "create", 0, true},
		{"one of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "a", Method: "GET", Query: ""}}}, "get", 0, true},
		{"a list of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "", Method: "GET", Query: "limit=5"}}}, "list", 0, true},
		{"a watch of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "", Method: "GET", Query: "watch=1"}}}, "watch", 0, true},
		{"no watch of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "", Method: "GET", Query: "watch=false"}}}, "list", 0, true},
		{"a change of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "a", Method: "PUT", Query: ""}}}, "update", 0, true},
		{"a deletion of an extension", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "a", Method: "DELETE", Query: ""}}}, "delete", 0, true},
		{"a collection of an extension that goes", &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Name: "", Method: "DELETE", Query: ""}}}, "deletecollection", 0, true},
		{"a batch", &apiv1.BatchRequest{Items: make([]*apiv1.BatchItem, 250)}, "post", 3, false},
		{"what is new", &apiv1.GetResponse{}, "post", 0, false},
	} {
		r := read(tt.message, count)
		if r.Verb != tt.verb || r.Width != tt.width || r.long != tt.long {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		resp any
		code int
		want int
	}{
		{"nothing is told", nil, 0, 0},
		{"created", &apiv1.CreateResponse{Code: 201}, 0, 201},
		{"a document", &apiv1.DocumentResponse{Etag: "x"}, 0, 0},
		{"a document that the client has", &apiv1.DocumentResponse{Etag: "x", NotModified: true}, 0, 304},
		{"passed on", nil, 501, 501},
	} {
		if got := answered(tt.resp, tt.code); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
