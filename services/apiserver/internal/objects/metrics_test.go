package objects

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// TestRequestLabels has requests counted under the labels that Kubernetes counts them under.
func TestRequestLabels(t *testing.T) {
	t.Parallel()
	r := prometheus.NewPedanticRegistry()
	m := NewMetrics(r)
	res := &registry.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	m.observe(&request{verb: "create", res: res, namespace: "a", dryRun: true}, 201)
	m.observe(&request{verb: "patch", res: res, namespace: "a", name: "x", applies: true}, 201)
	m.observe(&request{verb: "deletecollection", res: res, namespace: "a"}, 200)
	m.observe(&request{verb: "watch", res: res, long: true}, 200)
	m.observe(&request{verb: "get", res: res, namespace: "a", name: "x", size: 10}, 200)
	m.outdated(t.Context(), &request{res: &registry.Resource{GVR: schema.GroupVersionResource{Group: "policy", Version: "v1beta1", Resource: "x"}},
		outdated: "policy/v1beta1 X is deprecated in v1.21+, unavailable in v1.25+"})
	m.Document("/apis/apps/v1", 200)
	m.Document("/readyz/ping", 200)
	m.Document("/version", 200)
	const want = `
# HELP apiserver_request_total Requests by verb, resource and HTTP code.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="apis",verb="GET",version=""} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="DELETE",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="APPLY",version="v1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="All",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 1
# HELP apiserver_requested_deprecated_apis Versions that are deprecated and were asked for, with the release that removes them.
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="x",subresource="",version="v1beta1"} 1
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "apiserver_request_total", "apiserver_requested_deprecated_apis"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{
		"apiserver_request_duration_seconds": 5, "apiserver_request_sli_duration_seconds": 3, "apiserver_response_sizes": 1, // neither watches nor dry runs
	} {
		if got, err := testutil.GatherAndCount(r, name); err != nil || got != want {
			t.Errorf("%s: %d series, want %d: %v", name, got, want, err)
		}
	}
}
