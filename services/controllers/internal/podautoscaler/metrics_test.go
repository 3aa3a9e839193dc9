package podautoscaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// TestMetrics: names and labels are Kubernetes', what has gone is told of no more, and neither is what a leadership before has told.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.add(1)
	m.wants(scaler(), 9)
	m.began()
	m.add(2)
	m.add(-1)
	gone := scaler()
	gone.Name = "gone"
	m.wants(gone, 3)
	m.wants(scaler(), 4)
	m.forget("ns", "gone")
	m.looked(2, 4, outcome{}, time.Second)
	m.looked(2, 2, outcome{errors.New("why"), true}, time.Second)
	m.judged(Verdict{Type: autoscalingv2.ResourceMetricSourceType, Replicas: 1}, 2, time.Second)
	m.judged(Verdict{Type: autoscalingv2.ExternalMetricSourceType, Err: errors.New("why")}, 2, time.Second)
	const prefix = "horizontal_pod_autoscaler_controller_"
	want := `
# HELP HPA_desired_replicas How many replicas an autoscaler wants.
# TYPE HPA_desired_replicas gauge
HPA_desired_replicas{hpa_name="web",namespace="ns"} 4
# HELP HPA_metric_computation_total How often a metric was judged, by what it asked for: scale_up, scale_down or none.
# TYPE HPA_metric_computation_total counter
HPA_metric_computation_total{action="none",error="internal",metric_type="External"} 1
HPA_metric_computation_total{action="scale_down",error="none",metric_type="Resource"} 1
# HELP HPA_num_horizontal_pod_autoscalers How many autoscalers there are.
# TYPE HPA_num_horizontal_pod_autoscalers gauge
HPA_num_horizontal_pod_autoscalers 1
# HELP HPA_reconciliations_total How often an autoscaler was looked at, by what was done: scale_up, scale_down or none.
# TYPE HPA_reconciliations_total counter
HPA_reconciliations_total{action="none",error="spec"} 1
HPA_reconciliations_total{action="scale_up",error="none"} 1
`
	names := []string{prefix + "desired_replicas", prefix + "metric_computation_total", prefix + "num_horizontal_pod_autoscalers", prefix + "reconciliations_total"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(strings.ReplaceAll(want, "HPA_", prefix)), names...); err != nil {
		t.Error(err)
	}
	for _, name := range []string{prefix + "reconciliation_duration_seconds", prefix + "metric_computation_duration_seconds"} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != 2 {
			t.Errorf("%d of %s, %v", n, name, err)
		}
	}
}
