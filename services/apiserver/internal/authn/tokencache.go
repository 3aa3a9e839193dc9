package authn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TokenCache counts how often verifiers knew a token already, under Kubernetes' names. A nil one counts nothing.
type TokenCache struct {
	requests, fetches *prometheus.CounterVec
	seconds           *prometheus.HistogramVec
	active            prometheus.Gauge
}

// NewTokenCache registers the metrics; a nil registerer registers them nowhere.
func NewTokenCache(r prometheus.Registerer) *TokenCache {
	const prefix = "authentication_token_cache_"
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "active_fetch_count", Help: "Tokens that are being looked into."}, []string{"status"})
	c := &TokenCache{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "request_total", Help: "Tokens that were remembered (hit), or not (miss)."}, []string{"status"}),
		fetches:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "fetch_total", Help: "Tokens that were looked into, by what came of it."}, []string{"status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "Time that tokens took.", Buckets: prometheus.DefBuckets}, []string{"status"}),
		active: active.WithLabelValues("in_flight"),
	}
	if r != nil {
		r.MustRegister(c.requests, c.fetches, c.seconds, active)
	}
	return c
}

// Hit counts a token that was remembered.
func (c *TokenCache) Hit() {
	if c != nil {
		c.requests.WithLabelValues("hit").Inc()
		c.seconds.WithLabelValues("hit").Observe(0)
	}
}

// Miss counts one that has to be looked into; the function that it returns takes what came of it.
func (c *TokenCache) Miss() (done func(error)) {
	if c == nil {
		return func(error) {}
	}
	start := time.Now()
	c.requests.WithLabelValues("miss").Inc()
	c.active.Inc()
	return func(err error) {
		status := "ok"
		if err != nil {
			status = "error"
		}
		c.active.Dec()
		c.fetches.WithLabelValues(status).Inc()
		c.seconds.WithLabelValues("miss").Observe(time.Since(start).Seconds())
	}
}
