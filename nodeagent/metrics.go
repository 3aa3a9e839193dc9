package nodeagent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/probe"
)

type metrics struct {
	lists   *prometheus.CounterVec
	writes  prometheus.Histogram
	syncs   prometheus.Histogram
	probes  *prometheus.CounterVec
	streams *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		lists: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_nodeagent_runtime_lists_total", Help: "Lists of the runtime's pods, by outcome.",
		}, []string{"outcome"}),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_nodeagent_status_batch_size", Help: "Pod writes that shared a call.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_status_sync_duration_seconds", Help: "Time from a change of a pod's status until the API had it.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 20, 30, 45, 60},
		}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Probes, by type and result.",
		}, []string{"probe_type", "result"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "howdah_nodeagent_open_streams", Help: "Streams into pods that are open now.",
		}, []string{"subresource"}),
	}
	registerer.MustRegister(m.lists, m.writes, m.syncs, m.probes, m.streams)
	return m
}

// tellName tells the node's name, by which alerts join what is told of a node with what it is called.
func tellName(registerer prometheus.Registerer, node string) {
	name := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "The node's name, always 1.", ConstLabels: prometheus.Labels{"node": node},
	})
	name.Set(1)
	registerer.MustRegister(name)
}

func (m *metrics) listed(ok bool) {
	outcome := "ok"
	if !ok {
		outcome = "failed"
	}
	m.lists.WithLabelValues(outcome).Inc()
}

func (m *metrics) wrote(pods int) { m.writes.Observe(float64(pods)) }

func (m *metrics) synced(took time.Duration) { m.syncs.Observe(took.Seconds()) }

func (m *metrics) probed(kind probe.Kind, result string) {
	m.probes.WithLabelValues(string(kind), result).Inc()
}

func (m *metrics) opened(subresource string, change float64) {
	m.streams.WithLabelValues(subresource).Add(change)
}
