package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/feed"
	"howdah.dev/gateway/internal/request"
)

// recorded is an API server that answers every call with the same and keeps what it was asked.
type recorded struct {
	method   string
	message  proto.Message
	metadata metadata.MD
	err      error
	// breaks fails streams after their first message.
	breaks bool
}

func (c *recorded) keep(ctx context.Context, method string, message any) {
	c.method, c.message = method, proto.Clone(message.(proto.Message))
	c.metadata, _ = metadata.FromOutgoingContext(ctx)
}

var warned = metadata.Pairs("warning", "it is old")

func (c *recorded) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	c.keep(ctx, method, args)
	for _, o := range options {
		if h, ok := o.(grpc.HeaderCallOption); ok {
			*h.HeaderAddr = warned
		}
	}
	if c.err != nil {
		return apistatus.ToGRPC(c.err)
	}
	var answer proto.Message
	switch reply.(type) {
	case *apiv1.GetResponse:
		answer = &apiv1.GetResponse{Object: []byte("{}"), ContentType: "application/json"}
	case *apiv1.CreateResponse:
		answer = &apiv1.CreateResponse{Object: []byte(strings.Repeat("x", 200<<10)), ContentType: "application/json", Code: 201}
	case *apiv1.UpdateResponse:
		answer = &apiv1.UpdateResponse{ContentType: "application/json", Code: 200}
	case *apiv1.PatchResponse:
		answer = &apiv1.PatchResponse{Object: []byte("{}"), ContentType: "application/yaml"}
	case *apiv1.DeleteResponse:
		answer = &apiv1.DeleteResponse{Object: []byte("{}"), ContentType: "application/json", Code: 202}
	default:
		answer = &apiv1.DeleteCollectionResponse{Object: []byte("{}"), ContentType: "application/json", Code: 200}
	}
	proto.Merge(reply.(proto.Message), answer)
	return nil
}

func (c *recorded) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &recordedStream{recorded: c, ctx: ctx, method: method}, nil
}

type recordedStream struct {
	grpc.ClientStream
	*recorded
	ctx    context.Context
	method string
	sent   int
}

func (s *recordedStream) Context() context.Context     { return s.ctx }
func (s *recordedStream) Header() (metadata.MD, error) { return warned, nil }
func (s *recordedStream) Trailer() metadata.MD         { return nil }
func (s *recordedStream) CloseSend() error             { return nil }
func (s *recordedStream) SendMsg(m any) error          { s.keep(s.ctx, s.method, m); return nil }
func (s *recordedStream) RecvMsg(m any) error {
	if s.err != nil && (s.sent > 0 || !s.breaks) {
		return apistatus.ToGRPC(s.err)
	}
	s.sent++
	switch m := m.(type) {
	case *apiv1.ListResponse:
		if s.sent > 3 {
			return io.EOF
		}
		m.Reset()
		m.Object = []byte(strings.Repeat("x", 100<<10))
		if s.sent == 1 {
			m.ContentType = "application/json"
		}
	case *apiv1.WatchResponse:
		if s.sent > 3 {
			return io.EOF
		}
		m.Reset()
		if s.sent == 1 {
			m.ContentType = "application/vnd.kubernetes.protobuf"
			return nil
		}
		m.Events = []*apiv1.WatchEvent{{Type: "ADDED", Object: []byte("object")}, {Type: "DELETED", Object: []byte("another")}}
	}
	return nil
}

// TestDirectIsWhatTheGeneratedHandlersDo sends each request both ways, and compares what arrives at either end.
func TestDirectIsWhatTheGeneratedHandlersDo(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Method   string
		Message  proto.Message
		Metadata metadata.MD
		Code     int
		Header   http.Header
		Body     string
		Broken   bool
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	const pods = "/api/v1/namespaces/n/pods"
	for _, c := range []struct {
		method, url, body string
		headers           []string
		err               error
		breaks            bool
	}{
		{method: "GET", url: pods + "/p"},
		{method: "GET", url: pods + "/p/status?resourceVersion=5&pretty=1&includeObject=None&unknown=x", headers: []string{"Accept: application/yaml", "Accept: application/json"}},
		{method: "GET", url: "/apis/apps/v1/namespaces/n/deployments/a%20b"},
		{method: "GET", url: "/api/v1/nodes/n", err: notFound},
		{method: "POST", url: pods + "?dryRun=All&dryRun=x&fieldManager=m&fieldValidation=Strict&pretty=true", body: "{}", headers: []string{"Content-Type: application/json"}},
		{method: "POST", url: pods + "/p/eviction", body: "{}", headers: []string{"Content-Type: application/json", "User-Agent: kubectl/1", "Accept-Encoding: gzip"}},
		{method: "POST", url: pods + "?includeUninitialized=true", body: "{}", headers: []string{"Content-Type: application/json"}},
		{method: "POST", url: pods, body: "{}", err: notFound},
		{method: "PUT", url: pods + "/p?fieldManager=m", body: "{}"},
		{method: "PUT", url: pods + "/p/status", body: "{}", headers: []string{"Content-Type: application/vnd.kubernetes.protobuf"}},
		{method: "PATCH", url: pods + "/p?force=1&fieldManager=m", body: "{}", headers: []string{"Content-Type: application/apply-patch+yaml"}},
		{method: "PATCH", url: pods + "/p/status", body: "{}", headers: []string{"Content-Type: application/merge-patch+json", "User-Agent: curl/8"}},
		{method: "DELETE", url: pods + "/p?gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=false&dryRun=All"},
		{method: "DELETE", url: pods + "/p", body: `{"kind":"DeleteOptions"}`, headers: []string{"Content-Type: application/json"}},
		{method: "GET", url: pods + "?labelSelector=a%3Db&fieldSelector=c%3Dd&resourceVersion=7&resourceVersionMatch=Exact&limit=50&continue=t&timeoutSeconds=9&pretty=false&includeUninitialized=1"},
		{method: "GET", url: "/api/v1/pods", headers: []string{"Accept-Encoding: gzip"}},
		{method: "GET", url: "/api/v1/nodes", err: notFound},
		{method: "GET", url: pods, err: notFound, breaks: true},
		{method: "GET", url: pods + "?watch=1&labelSelector=a&fieldSelector=b&resourceVersion=8&resourceVersionMatch=NotOlderThan&timeoutSeconds=30&allowWatchBookmarks=true&sendInitialEvents=true&includeUninitialized=true"},
		{method: "GET", url: "/api/v1/watch/namespaces/n/pods/p?allowWatchBookmarks=0"},
		{method: "GET", url: "/api/v1/nodes?watch=true", err: notFound},
		{method: "GET", url: "/api/v1/nodes?watch=true", err: notFound, breaks: true},
	} {
		t.Run(c.method+" "+c.url, func(t *testing.T) {
			t.Parallel()
			serve := func(generated bool) (o outcome) {
				server := &recorded{err: c.err, breaks: c.breaks}
				h, err := New(apiv1.NewObjectServiceClient(server), 1<<20, feed.New(feed.Config{}))
				if err != nil {
					t.Fatal(err)
				}
				h.generated = generated
				r := httptest.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(c.body))
				for _, line := range c.headers {
					name, value, _ := strings.Cut(line, ": ")
					r.Header.Add(name, value)
				}
				w := httptest.NewRecorder()
				defer func() {
					o.Broken = recover() == http.ErrAbortHandler
					for _, added := range []string{"x-forwarded-host", "x-forwarded-for"} {
						delete(server.metadata, added)
					}
					o.Method, o.Message, o.Metadata = server.method, server.message, server.metadata
					o.Code, o.Header, o.Body = w.Code, w.Result().Header, w.Body.String()
				}()
				defer func() {
					if list, ok := server.message.(*apiv1.ListRequest); ok {
						list.AcceptEncoding = "" // that the API server may compress, the generated handlers cannot say
					}
				}()
				h.Serve(w, r, request.Resolve(r.Method, r.URL), metadata.Pairs("howdah-user", "somebody"))
				return o
			}
			if diff := cmp.Diff(serve(true), serve(false), protocmp.Transform()); diff != "" {
				t.Errorf("through the generated handlers (-), directly (+):\n%s", diff)
			}
		})
	}
}
