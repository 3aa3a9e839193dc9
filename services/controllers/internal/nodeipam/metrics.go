package nodeipam

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are Kubernetes' metrics of ranges that are given to nodes. A nil one measures nothing.
type Metrics struct {
	allocations, releases *prometheus.CounterVec
	most, usage           *prometheus.GaugeVec
	tries                 *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "node_ipam_controller"
	label := []string{"clusterCIDR"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, label)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, label)
	}
	m := &Metrics{
		allocations: counter("cidrset_cidrs_allocations_total", "Ranges of the cluster's that nodes were given, or had."),
		releases:    counter("cidrset_cidrs_releases_total", "Ranges that are free again."),
		most:        gauge("cirdset_max_cidrs", "Ranges that there are in the cluster's."), // the name is Kubernetes'
		usage:       gauge("cidrset_usage_cidrs", "Which share of the ranges nodes have, from 0 to 1."),
		tries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", Help: "Ranges that were looked at before a free one was found.",
			Buckets: prometheus.ExponentialBuckets(1, 5, 5),
		}, label),
	}
	registerer.MustRegister(m.allocations, m.releases, m.most, m.usage, m.tries)
	return m
}

// forget drops how the ranges were in a leadership before; what it counted stays.
func (m *Metrics) forget() {
	if m != nil {
		m.most.Reset()
		m.usage.Reset()
	}
}

// of returns the metrics of the ranges of one of the cluster's ranges.
func (m *Metrics) of(cluster netip.Prefix) *usage {
	if m == nil {
		return nil
	}
	cidr := cluster.String()
	return &usage{
		m: m, cidr: cidr, allocations: m.allocations.WithLabelValues(cidr), releases: m.releases.WithLabelValues(cidr), tries: m.tries.WithLabelValues(cidr),
	}
}

// usage measures the ranges of one of the cluster's ranges. A nil one measures nothing.
type usage struct {
	m                     *Metrics
	cidr                  string
	allocations, releases prometheus.Counter
	tries                 prometheus.Observer
}

// changed measures that ranges were taken and freed; taken of all are taken now.
func (u *usage) changed(took, freed, taken int, all uint64) {
	if u == nil {
		return
	}
	u.allocations.Add(float64(took))
	u.releases.Add(float64(freed))
	u.m.most.WithLabelValues(u.cidr).Set(float64(all))
	u.m.usage.WithLabelValues(u.cidr).Set(float64(taken) / float64(all))
}

// tried measures how many ranges were taken that were looked at for a free one.
func (u *usage) tried(n uint64) {
	if u != nil {
		u.tries.Observe(float64(n))
	}
}
