package authz

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metered counts the decisions of a chain, under Kubernetes' names.
type Metered struct {
	Chain
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// Meter registers the metrics; a nil registerer registers them nowhere.
func Meter(chain Chain, r prometheus.Registerer) *Metered {
	m := &Metered{
		Chain: chain,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authorization_attempts_total", Help: "Decisions by result: allowed, denied, no-opinion or error."}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authorization_duration_seconds", Help: "How long decisions took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"result"}),
	}
	if r != nil {
		r.MustRegister(m.attempts, m.duration)
	}
	return m
}

// Authorize implements Authorizer.
func (m *Metered) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	start := time.Now()
	decision, reason, err := m.Chain.Authorize(ctx, a)
	result := "no-opinion"
	switch {
	case decision == Allow:
		result = "allowed"
	case err != nil:
		result = "error"
	case decision == Deny:
		result = "denied"
	}
	m.attempts.WithLabelValues(result).Inc()
	m.duration.WithLabelValues(result).Observe(time.Since(start).Seconds())
	return decision, reason, err
}
