package authn

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are named as Kubernetes' are.
type Metrics struct {
	users    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics; a nil registerer registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		users: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authenticated_user_requests", Help: "Authenticated requests by user: a few by name, all others as other."}, []string{"username"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authentication_attempts", Help: "Attempts to authenticate, by result: success, failure (nothing was shown that somebody knows) or error."}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "authentication_duration_seconds", Help: "How long authentication took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"result"}),
	}
	if r != nil {
		r.MustRegister(m.users, m.attempts, m.duration)
	}
	return m
}

func (m *Metrics) observe(u *User, err error, took time.Duration) {
	if m == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	} else {
		m.users.WithLabelValues(label(u.Name)).Inc()
	}
	m.attempts.WithLabelValues(result).Inc()
	m.duration.WithLabelValues(result).Observe(took.Seconds())
}

// label keeps the metric small, as Kubernetes does: people are many.
func label(name string) string {
	switch {
	case name == "admin", name == "client", name == "kube_proxy", name == "kubelet", name == ServiceAccountName("kube-system", "default"):
		return name
	case strings.Contains(name, "@"):
		return "email_id"
	}
	return "other"
}
