package nodelifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, z := NewMetrics(registry), newZones(Rates{})
	look := func(nodes ...*corev1.Node) { m.observed(z.observe(nodes, nil)) }
	yes, no := ready(corev1.ConditionTrue), ready(corev1.ConditionFalse)
	look(newNode("1", "a", yes), newNode("2", "a", yes), newNode("3", "a", no), newNode("4", "a", yes), newNode("5", "b", no))
	m.evicted(zoneOf(newNode("5", "b")))
	look(newNode("1", "a", yes), newNode("2", "a", yes), newNode("3", "a", no), newNode("4", "a", yes))
	m.updated(time.Second)
	const want = `# HELP node_collector_evictions_total Nodes of a zone that were given up: what does not tolerate it has to go.
# TYPE node_collector_evictions_total counter
node_collector_evictions_total{zone=":Z:a"} 0
node_collector_evictions_total{zone=":Z:b"} 1
# HELP node_collector_unhealthy_nodes_in_zone Nodes of a zone that are not ready.
# TYPE node_collector_unhealthy_nodes_in_zone gauge
node_collector_unhealthy_nodes_in_zone{zone=":Z:a"} 1
# HELP node_collector_zone_health How many of a hundred nodes of a zone are ready.
# TYPE node_collector_zone_health gauge
node_collector_zone_health{zone=":Z:a"} 75
# HELP node_collector_zone_size Nodes of a zone.
# TYPE node_collector_zone_size gauge
node_collector_zone_size{zone=":Z:a"} 4
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(strings.ReplaceAll(want, "Z", "\x00")), "node_collector_evictions_total",
		"node_collector_unhealthy_nodes_in_zone", "node_collector_zone_health", "node_collector_zone_size")
	if err != nil {
		t.Error(err)
	}
	m.forget()
	if n := testutil.CollectAndCount(m.size) + testutil.CollectAndCount(m.health) + testutil.CollectAndCount(m.sick); n != 0 {
		t.Errorf("%d series of zones after the leadership", n)
	}
	if n := testutil.CollectAndCount(m.update); n != 1 {
		t.Errorf("%d series of durations", n)
	}
	(*Metrics)(nil).observed(map[string]count{"a": {}}, nil)
}
