package feed

import "github.com/prometheus/client_golang/prometheus"

// metrics tell how much is shared: sent over received is how often an event that came and was framed once went out.
type metrics struct {
	feeds, followers              prometheus.Gauge
	received, sent, resumed, slow prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		feeds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_gateway_shared_watches", Help: "Watches at API servers that many clients' watches share."}),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "howdah_gateway_shared_watchers", Help: "Clients' watches that are told by a shared one."}),
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_gateway_shared_watch_events_received_total", Help: "Events that came over shared watches. Each was framed once."}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_gateway_shared_watch_events_sent_total", Help: "Events of shared watches that went to clients."}),
		resumed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_gateway_shared_watch_resumes_total", Help: "Times that a shared watch was interrupted and tried to go on."}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "howdah_gateway_shared_watch_slow_total", Help: "Clients' watches that were ended because they did not keep up with a shared one."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.feeds, m.followers, m.received, m.sent, m.resumed, m.slow)
	}
	return m
}
