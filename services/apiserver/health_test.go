package apiserver

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestMetrics reads what dashboards for Kubernetes read.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.Registerer = prometheus.NewRegistry() })
	f.must(f.create("v1/secrets", "default", `{"metadata":{"name":"a"}}`))
	stream, err := f.api.Watch(t.Context(), &apiv1.WatchRequest{Version: "v1", Resource: "secrets"})
	if err != nil {
		t.Fatal(err)
	}
	for events := 0; events == 0; {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		events += len(resp.GetEvents())
	}
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/version"}); err != nil {
		t.Fatal(err)
	}
	resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	text := string(resp.GetObject())
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="secrets",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_resource_objects{group="",resource="secrets"} 1`,
		`apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"}`,
		`apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245`,
		`apiserver_panics_total 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not told", want)
		}
	}
	if !strings.HasPrefix(resp.GetContentType(), "text/plain; version=0.0.4") || resp.GetEtag() != "" {
		t.Error(resp.GetContentType(), resp.GetEtag())
	}
}

// TestReadyEndsWithTheServer fails the readiness once the server is being stopped.
func TestReadyEndsWithTheServer(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	if err := f.server.stopping(t.Context()); err != nil {
		t.Fatal(err)
	}
	resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/readyz", Query: "verbose&exclude=etcd-readiness"})
	text := string(resp.GetObject())
	for _, want := range []string{"[+]ping ok\n[+]log ok\n[+]etcd ok\n", "[+]etcd-readiness excluded: ok\n[+]informer-sync ok\n", "[+]poststarthook/rbac/bootstrap-roles ok\n", "[+]shutdown ok\nreadyz check passed\n"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s %v", want, text, err)
		}
	}
	close(f.server.stopped)
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/readyz"}); status(err).Code != 500 || !strings.Contains(status(err).Message, "[-]shutdown failed: reason withheld") {
		t.Error(err)
	}
	if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/livez"}); err != nil {
		t.Error(err)
	}
	f.server.stopped = make(chan struct{}) // the stop closes it
}
