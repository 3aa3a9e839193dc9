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
	// as and allowed are attempts to act as somebody else, and what was asked of the authorizers for them.
	as, allowed               *prometheus.CounterVec
	asDuration, allowDuration *prometheus.HistogramVec
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
	const as = "apiserver_impersonation_"
	labels, buckets := []string{"mode", "decision"}, prometheus.ExponentialBuckets(0.001, 2, 15)
	m.as = prometheus.NewCounterVec(prometheus.CounterOpts{Name: as + "attempts_total", Help: "Attempts to act as somebody else, by the way that was open."}, labels)
	m.asDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: as + "attempts_duration_seconds", Help: "How long these took.", Buckets: buckets}, labels)
	m.allowed = prometheus.NewCounterVec(prometheus.CounterOpts{Name: as + "authorization_attempts_total", Help: "Decisions on attempts to act as somebody else."}, labels)
	m.allowDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: as + "authorization_attempts_duration_seconds", Help: "How long these took.", Buckets: buckets}, labels)
	if r != nil {
		r.MustRegister(m.users, m.attempts, m.duration, m.as, m.asDuration, m.allowed, m.allowDuration)
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

// acted counts an attempt to act as somebody else; mode is empty where no way was open.
func (m *Metrics) acted(mode string, err error, took time.Duration) {
	if m != nil {
		m.as.WithLabelValues(mode, decided(err)).Inc()
		m.asDuration.WithLabelValues(mode, decided(err)).Observe(took.Seconds())
	}
}

// asked counts a decision for such an attempt.
func (m *Metrics) asked(mode string, err error, took time.Duration) {
	if m != nil {
		m.allowed.WithLabelValues(mode, decided(err)).Inc()
		m.allowDuration.WithLabelValues(mode, decided(err)).Observe(took.Seconds())
	}
}

func decided(err error) string {
	if err != nil {
		return "denied"
	}
	return "allowed"
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
