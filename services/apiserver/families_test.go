package apiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestFamilies makes a mixed load and looks for the metrics that dashboards for Kubernetes read, with Kubernetes' labels.
func TestFamilies(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f := startMemory(t, func(c *Config) { c.Registerer = registry })
	if _, err := f.create("v1/configmaps", "default", `{"metadata":{"name":"a","namespace":"default"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.get("v1/configmaps", "default", "a"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := f.create("v1/secrets", "default", `{"metadata":{"name":"`+name+`","namespace":"default"}}`); err != nil {
			t.Fatal(err)
		}
	}
	for _, req := range []*apiv1.ListRequest{{}, {FieldSelector: "metadata.name=b"}, {FieldSelector: "type=nothing"}, {ResourceVersion: "0"}} {
		req.Version, req.Resource, req.Namespace = "v1", "secrets", "default"
		if _, err := f.list(req); err != nil {
			t.Fatal(err)
		}
	}
	w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "secrets", Namespace: "default", SendInitialEvents: "true", ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true})
	for range 3 {
		w.next()
	}
	if _, err := f.create("v1/services", "default", `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(f.server.objects.Metrics.Panics); got != 0 {
		t.Errorf("%v panics", got)
	}
	const lists = `
# HELP apiserver_cache_list_fetched_objects_total Objects that lists looked at in the cache.
# TYPE apiserver_cache_list_fetched_objects_total counter
apiserver_cache_list_fetched_objects_total{group="",index="",resource="secrets"} 7
# HELP apiserver_cache_list_returned_objects_total Objects that lists from the cache returned.
# TYPE apiserver_cache_list_returned_objects_total counter
apiserver_cache_list_returned_objects_total{group="",resource="secrets"} 5
# HELP apiserver_cache_list_total Lists that were answered from the cache.
# TYPE apiserver_cache_list_total counter
apiserver_cache_list_total{group="",index="",resource="secrets"} 4
# HELP apiserver_init_events_total Objects that watches began with.
# TYPE apiserver_init_events_total counter
apiserver_init_events_total{group="",resource="secrets"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(lists), "apiserver_cache_list_fetched_objects_total",
		"apiserver_cache_list_returned_objects_total", "apiserver_cache_list_total", "apiserver_init_events_total"); err != nil {
		t.Error(err)
	}
	found := map[string][]string{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		found[family.GetName()] = labels // which are in order
	}
	kind, request := []string{"group", "resource"}, []string{"group", "operation", "resource"}
	level, flow := []string{"priority_level"}, []string{"flow_schema", "priority_level"}
	version, cidr := []string{"group", "resource", "version"}, []string{"cidr"}
	for name, want := range map[string][]string{
		"apiserver_storage_list_total":                                   kind,
		"apiserver_storage_list_fetched_objects_total":                   kind,
		"apiserver_storage_events_received_total":                        kind,
		"apiserver_resource_size_estimate_bytes":                         kind,
		"apiserver_watch_cache_read_wait_seconds":                        kind,
		"apiserver_watch_cache_consistent_read_total":                    {"fallback", "group", "resource", "success"},
		"watch_cache_capacity":                                           kind,
		"apiserver_watch_events_sizes":                                   version,
		"apiserver_watch_events_total":                                   version,
		"apiserver_watch_list_duration_seconds":                          {"group", "resource", "scope", "version"},
		"apiserver_request_body_size_bytes":                              {"group", "resource", "verb"},
		"kube_apiserver_clusterip_allocator_allocated_ips":               cidr,
		"kube_apiserver_clusterip_allocator_allocation_duration_seconds": cidr,
		"kube_apiserver_nodeport_allocator_available_ports":              nil,
		"aggregator_discovery_aggregation_count_total":                   nil,
		"authentication_token_cache_active_fetch_count":                  {"status"},
		"version_info":                                             {"binary", "component", "emulation", "min_compat"},
		"etcd_requests_total":                                      request,
		"etcd_request_duration_seconds":                            request,
		"apiserver_resource_objects":                               kind,
		"apiserver_watch_cache_events_received_total":              kind,
		"apiserver_watch_cache_events_dispatched_total":            kind,
		"apiserver_watch_cache_initializations_total":              kind,
		"apiserver_watch_cache_resource_version":                   kind,
		"apiserver_flowcontrol_demand_seats_average":               level,
		"apiserver_flowcontrol_demand_seats_stdev":                 level,
		"apiserver_flowcontrol_demand_seats_high_watermark":        level,
		"apiserver_flowcontrol_demand_seats_smoothed":              level,
		"apiserver_flowcontrol_current_limit_seats":                level,
		"apiserver_flowcontrol_dispatched_requests_total":          flow,
		"apiserver_flowcontrol_request_queue_length_after_enqueue": flow,
		"apiserver_flowcontrol_work_estimated_seats":               flow,
	} {
		if labels, ok := found[name]; !ok || !slices.Equal(labels, want) {
			t.Errorf("%s: %v, want %v", name, labels, want)
		}
	}
}
