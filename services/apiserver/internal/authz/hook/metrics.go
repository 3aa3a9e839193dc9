package hook

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"howdah.dev/services/apiserver/internal/remote"
)

// Metrics are those of all webhooks, under Kubernetes' names.
type Metrics struct {
	requests, evaluations, open, matchErrors, exclusions *prometheus.CounterVec
	latency, duration, matching                          *prometheus.HistogramVec
}

// NewMetrics registers the metrics; a nil registerer registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		requests:    counter("apiserver_delegated_authz_request_total", "Questions to authorization webhooks, by outcome.", "code"),
		evaluations: counter("apiserver_authorization_webhook_evaluations_total", "Questions to an authorization webhook, by outcome.", "name", "result"),
		open:        counter("apiserver_authorization_webhook_evaluations_fail_open_total", "Decisions that were left to others since the webhook could not be asked.", "name", "result"),
		matchErrors: counter("apiserver_authorization_match_condition_evaluation_errors_total", "Match conditions that could not be evaluated.", "type", "name"),
		exclusions:  counter("apiserver_authorization_match_condition_exclusions_total", "Requests that match conditions kept from a webhook.", "type", "name"),
		latency: histogram("apiserver_delegated_authz_request_duration_seconds", "How long authorization webhooks took.",
			[]float64{0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10}, "code"),
		duration: histogram("apiserver_authorization_webhook_duration_seconds", "How long an authorization webhook took.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "name", "result"),
		matching: histogram("apiserver_authorization_match_condition_evaluation_seconds", "How long match conditions took.",
			[]float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}, "type", "name"),
	}
	if r != nil {
		r.MustRegister(m.requests, m.evaluations, m.open, m.matchErrors, m.exclusions, m.latency, m.duration, m.matching)
	}
	return m
}

// tried counts that the webhook was asked once, and returns the outcome.
func (m *Metrics) tried(ctx context.Context, name string, try remote.Try) (result string) {
	code := "<error>"
	if try.Code != 0 {
		code = strconv.Itoa(try.Code)
	}
	result = outcome(ctx, try)
	m.requests.WithLabelValues(code).Inc()
	m.latency.WithLabelValues(code).Observe(try.Took.Seconds())
	m.evaluations.WithLabelValues(name, result).Inc()
	m.duration.WithLabelValues(name, result).Observe(try.Took.Seconds())
	return result
}

func (m *Metrics) failOpen(name, result string) { m.open.WithLabelValues(name, result).Inc() }

func outcome(ctx context.Context, try remote.Try) string {
	err := try.Err
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case utilnet.IsTimeout(err), errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), try.Code == http.StatusGatewayTimeout:
		return "timeout"
	}
	return "error"
}

// RecordAuthorizationMatchConditionEvaluation implements cel.MatcherMetrics.
func (m *Metrics) RecordAuthorizationMatchConditionEvaluation(_ context.Context, kind, name string, elapsed time.Duration) {
	m.matching.WithLabelValues(kind, name).Observe(elapsed.Seconds())
}

// RecordAuthorizationMatchConditionEvaluationFailure implements cel.MatcherMetrics.
func (m *Metrics) RecordAuthorizationMatchConditionEvaluationFailure(_ context.Context, kind, name string) {
	m.matchErrors.WithLabelValues(kind, name).Inc()
}

// RecordAuthorizationMatchConditionExclusion implements cel.MatcherMetrics.
func (m *Metrics) RecordAuthorizationMatchConditionExclusion(_ context.Context, kind, name string) {
	m.exclusions.WithLabelValues(kind, name).Inc()
}
