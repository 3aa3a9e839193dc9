package netpol

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	policies prometheus.Gauge
	subjects prometheus.Gauge
	entries  prometheus.Gauge
	refused  prometheus.Gauge
	seconds  prometheus.Histogram
	errors   prometheus.Counter
	// programs count the packets that they drop; nil while none are loaded.
	programs atomic.Pointer[datapath]
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		policies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_netpol_policies", Help: "Network policies in the cluster."}),
		subjects: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_netpol_subjects", Help: "Pods of this node that network policies isolate in some direction."}),
		entries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_netpol_entries", Help: "Prefixes of addresses and ports in the maps."}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_netpol_refused_rules", Help: "Lists of rules that name too many ranges of ports: they let nothing pass."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_netpol_sync_seconds", Help: "Time to write the changes of one round to the maps.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_netpol_sync_errors_total", Help: "Rounds that could not write everything and were tried again."}),
	}
	if reg == nil {
		return m, nil
	}
	collectors := []prometheus.Collector{m.policies, m.subjects, m.entries, m.refused, m.seconds, m.errors}
	for _, d := range directions {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "howdah_netpol_dropped_packets_total", Help: "Packets of pods that network policies do not allow, by direction.",
			ConstLabels: prometheus.Labels{"direction": d.String()},
		}, func() float64 {
			if programs := m.programs.Load(); programs != nil {
				return programs.drops(d)
			}
			return 0
		}))
	}
	collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "howdah_netpol_spoofed_packets_total", Help: "Packets of pods that were dropped because they came from no address of their pod.",
	}, func() float64 {
		if programs := m.programs.Load(); programs != nil {
			return programs.spoofed()
		}
		return 0
	}))
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
