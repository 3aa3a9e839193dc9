package apiserver

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
	for name, want := range map[string][]string{
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
