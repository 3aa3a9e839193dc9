package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway"
	"howdah.dev/kit/rpc"
	controllersv1 "howdah.dev/proto/gen/howdah/controllers/v1"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
)

// roles is a scheduler and controllers that remember who asked.
type roles struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	controllersv1.UnimplementedControllerServiceServer
	asked chan metadata.MD
}

func (r *roles) Explain(ctx context.Context, in *schedulerv1.ExplainRequest) (*schedulerv1.ExplainResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.asked <- md
	if in.Name == "missing" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, in.Name)
	}
	return &schedulerv1.ExplainResponse{Namespace: in.Namespace, Name: in.Name, Nodes: []*schedulerv1.NodeVerdict{{Node: "node1"}}}, nil
}

func (r *roles) ListQueues(context.Context, *controllersv1.ListQueuesRequest) (*controllersv1.ListQueuesResponse, error) {
	return &controllersv1.ListQueuesResponse{Leader: true}, nil
}

func TestRoleAPIs(t *testing.T) {
	t.Parallel()
	r := &roles{asked: make(chan metadata.MD, 10)}
	conn := dialServer(t, func(server *rpc.Server) {
		schedulerv1.RegisterSchedulerServiceServer(server, r)
		controllersv1.RegisterControllerServiceServer(server, r)
	})
	registry := prometheus.NewRegistry()
	c := setup(t, func(config *gateway.Config) {
		config.Scheduler, config.Controllers = conn, conn
		config.Registerer, config.Gatherer = registry, registry
		config.Profiling, config.Settings = true, []string{"listen=:6443", "database-url=<hidden>"}
	})
	const explain = "/howdah/v1/namespaces/a/pods/p/explain"
	tests := []struct {
		name, role, method, path string
		headers                  []string
		code                     int
		part, user               string
	}{
		{"by certificate", "admin", "GET", explain, []string{"Howdah-User: root"}, 200, `"node":"node1"`, "kubernetes-admin"},
		{"by token", "", "GET", explain, []string{"Authorization: Bearer good"}, 200, `"name":"p"`, "system:serviceaccount:default:default"},
		{"by a bad token", "", "GET", explain, []string{"Authorization: Bearer bad"}, 401, `"message":"Unauthorized"`, ""},
		{"by nobody", "", "GET", explain, nil, 401, `"message":"Unauthorized"`, ""},
		{"not found", "admin", "GET", "/howdah/v1/namespaces/a/pods/missing/explain", nil, 404, `pods \"missing\" not found`, "kubernetes-admin"},
		{"queues", "admin", "GET", "/howdah/v1/controllers/queues", nil, 200, `"leader":true`, ""},
		{"no such path", "admin", "GET", "/howdah/v1/nothing", nil, 404, "the server could not find the requested resource", ""},
		{"no such method", "admin", "DELETE", explain, nil, 405, "the server does not allow this method", ""},
		{"metrics", "admin", "GET", "/metrics", nil, 200, "howdah_gateway_requests_total", ""},
		{"metrics by POST", "admin", "POST", "/metrics", nil, 200, "howdah_gateway_requests_total", ""},
		{"metrics by DELETE", "admin", "DELETE", "/metrics", nil, 404, "page not found", ""},
		{"status by POST", "admin", "POST", "/statusz", nil, 200, "Binary version=", ""},
		{"profiles", "admin", "GET", "/debug/pprof/", nil, 200, "goroutine", ""},
		{"a profile", "admin", "GET", "/debug/pprof/heap?debug=1", nil, 200, "heap profile", ""},
		{"profiles for nobody", "", "GET", "/debug/pprof/", nil, 401, "Unauthorized", ""},
		{"settings", "admin", "GET", "/configz", nil, 200, `{"gateway":{"database-url":"<hidden>","listen":":6443"}}`, ""},
		{"settings for nobody", "", "GET", "/configz", nil, 401, "Unauthorized", ""},
		{"flags", "admin", "GET", "/flagz", nil, 200, "database-url: <hidden>\nlisten: :6443", ""},
		{"status", "admin", "GET", "/statusz", nil, 200, "Binary version= v1.36.3+howdah\nEmulation version= 1.36\nPaths= /debug/pprof /configz", ""},
		{"metrics for nobody", "", "GET", "/metrics", nil, 401, "Unauthorized", ""},
	}
	for _, tt := range tests {
		got := c.do(c.client(tt.role), tt.method, tt.path, "", tt.headers...)
		body := strings.ReplaceAll(got.body, `": `, `":`) // protojson varies its spaces
		if got.StatusCode != tt.code || !strings.Contains(body, tt.part) {
			t.Errorf("%s: %d %s", tt.name, got.StatusCode, got.body)
		}
		if tt.user == "" {
			continue
		}
		if md := <-r.asked; !slices.Equal(md.Get("howdah-user"), []string{tt.user}) {
			t.Errorf("%s: %v", tt.name, md)
		}
	}
}
