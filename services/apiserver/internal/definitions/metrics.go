package definitions

import "github.com/prometheus/client_golang/prometheus"

var kindsDesc = prometheus.NewDesc("howdah_custom_kinds", "Custom resource definitions, by state: established, waiting for their names, terminating.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (f *Follower) Describe(out chan<- *prometheus.Desc) { out <- kindsDesc }

// Collect implements prometheus.Collector.
func (f *Follower) Collect(out chan<- prometheus.Metric) {
	count := map[string]int{"established": 0, "waiting": 0, "terminating": 0}
	for _, d := range f.state() {
		switch {
		case d.deleting:
			count["terminating"]++
		case d.shape.established:
			count["established"]++
		default:
			count["waiting"]++
		}
	}
	for state, n := range count {
		out <- prometheus.MustNewConstMetric(kindsDesc, prometheus.GaugeValue, float64(n), state)
	}
}
