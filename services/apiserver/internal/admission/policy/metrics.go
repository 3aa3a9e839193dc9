package policy

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are named as Kubernetes names them.
type metrics struct {
	checks    *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer, subsystem string, more ...string) *metrics {
	labels := append([]string{"policy", "policy_binding", "error_type"}, more...)
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_" + subsystem + "_check_total", Help: "Checks by admission policies, by policy, binding and error type.",
		}, labels),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_" + subsystem + "_check_duration_seconds", Help: "Time of single expressions of admission policies.",
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1.0},
		}, labels),
	}
	if registerer != nil {
		registerer.MustRegister(m.checks, m.durations)
	}
	return m
}

func (m *metrics) observe(took time.Duration, labels ...string) {
	m.checks.WithLabelValues(labels...).Inc()
	m.durations.WithLabelValues(labels...).Observe(took.Seconds())
}

const noError = "no_error"

// errorType classifies the text of a failed evaluation.
func errorType(text string) string {
	switch {
	case strings.HasPrefix(text, "compilation"):
		return "compile_error"
	case strings.Contains(text, "running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}
