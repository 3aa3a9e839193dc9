package dra

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// anyDriver is the label under which claims of all drivers are counted.
const anyDriver = "<any>"

type metrics struct {
	operations *prometheus.HistogramVec
	calls      *prometheus.HistogramVec
}

// newMetrics registers the kubelet's metrics; inUse tells what is prepared.
func newMetrics(registerer prometheus.Registerer, inUse func() state) *metrics {
	buckets := prometheus.ExponentialBucketsRange(.1, 40, 15)
	m := &metrics{
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dra_operations_duration_seconds", Help: "How long it took to prepare the claims of a pod, or to take them back.", Buckets: buckets,
		}, []string{"operation_name", "is_error"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dra_grpc_operations_duration_seconds", Help: "How long calls of drivers of claims took, by driver, method and code of the answer.", Buckets: buckets,
		}, []string{"driver_name", "method_name", "grpc_status_code"}),
	}
	registerer.MustRegister(m.operations, m.calls, inUseCollector(inUse))
	return m
}

func (m *metrics) operated(name string, took time.Duration, err error) {
	m.operations.WithLabelValues(name, strconv.FormatBool(err != nil)).Observe(took.Seconds())
}

// inUseCollector counts the claims that are prepared; a driver that has none is not told of.
type inUseCollector func() state

var inUseDesc = prometheus.NewDesc("dra_resource_claims_in_use", "Claims that are prepared on the node, by driver; <any> counts each claim once.", []string{"driver_name"}, nil)

// Describe implements prometheus.Collector.
func (inUseCollector) Describe(to chan<- *prometheus.Desc) { to <- inUseDesc }

// Collect implements prometheus.Collector.
func (c inUseCollector) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{anyDriver: 0}
	for _, claim := range c() {
		if !claim.Prepared {
			continue
		}
		counts[anyDriver]++
		for driver := range claim.Drivers {
			counts[driver]++
		}
	}
	for driver, n := range counts {
		to <- prometheus.MustNewConstMetric(inUseDesc, prometheus.GaugeValue, float64(n), driver)
	}
}
