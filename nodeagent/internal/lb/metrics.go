package lb

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	services  prometheus.Gauge
	frontends prometheus.Gauge
	backends  prometheus.Gauge
	seconds   prometheus.Histogram
	errors    prometheus.Counter
	proxy     *proxyMetrics
}

func newMetrics(reg prometheus.Registerer, families []family) (*metrics, error) {
	proxy, more := newProxyMetrics(families)
	m := &metrics{
		proxy: proxy,
		services: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_lb_services", Help: "Objects (services, pods with hostPorts) that have frontends in the maps."}),
		frontends: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_lb_frontends", Help: "Frontends in the maps: addresses and ports that can be dialled."}),
		backends: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_lb_backends", Help: "Backends in the maps; frontends with equal backends share them."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_lb_sync_seconds", Help: "Time to write the changes of one round to the maps.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_lb_sync_errors_total", Help: "Rounds that could not write everything and were tried again."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range append(more, m.services, m.frontends, m.backends, m.seconds, m.errors) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
