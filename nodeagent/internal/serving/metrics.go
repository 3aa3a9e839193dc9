package serving

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are a kubelet's.
type metrics struct {
	lived  prometheus.Histogram
	errors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, left func() float64) *metrics {
	const day = 24 * time.Hour
	var buckets []float64
	for _, d := range []time.Duration{time.Minute, time.Hour, 4 * time.Hour, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 4 * 360 * day} {
		buckets = append(buckets, d.Seconds())
	}
	m := &metrics{
		lived: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_certificate_manager_server_rotation_seconds", Help: "How old serving certificates were when they were replaced.", Buckets: buckets,
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_server_expiration_renew_errors", Help: "Tries to replace the serving certificate that failed.",
		}),
	}
	reg.MustRegister(m.lived, m.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_certificate_manager_server_ttl_seconds", Help: "Seconds until the serving certificate ends, negative once it has; +Inf where there is none.",
	}, left))
	return m
}
