package webhooks

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
)

// metrics are named as Kubernetes names them.
type metrics struct {
	durations             *prometheus.HistogramVec
	rejections, openFails *prometheus.CounterVec
	requests, exclusions  *prometheus.CounterVec
}

// maxRejectionCode keeps a webhook from making labels: higher codes count as this one.
const maxRejectionCode = 600

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_webhook_admission_duration_seconds", Help: "Admission webhook latency in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_rejection_count", Help: "Admission webhook rejection count, by name, type, operation, error type (calling_webhook_error, apiserver_internal_error or no_error) and the rejection's HTTP code.",
		}, []string{"name", "type", "operation", "error_type", "rejection_code"}),
		openFails: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_fail_open_count", Help: "Admission webhook fail open count, by name and type.",
		}, []string{"name", "type"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_request_total", Help: "Admission webhook request total, by name, type, operation, HTTP code and whether the request was rejected.",
		}, []string{"name", "type", "operation", "code", "rejected"}),
		exclusions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_match_condition_exclusions_total", Help: "Requests that match conditions kept from a webhook.",
		}, []string{"name", "kind", "type", "operation"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.durations, m.rejections, m.openFails, m.requests, m.exclusions)
	}
	return m
}

func (m *metrics) excluded(h *hook, phase string, r *view.Request) {
	m.exclusions.WithLabelValues(h.name, "webhook", phase, string(r.Operation)).Inc()
}

func (m *metrics) observe(h *hook, phase string, a *admission.Attributes, got *answer, code int, rejected bool) {
	operation, no := string(a.Operation), strconv.FormatBool(rejected)
	if got != nil {
		m.durations.WithLabelValues(h.name, phase, operation, no).Observe(got.took.Seconds())
	}
	m.requests.WithLabelValues(h.name, phase, operation, strconv.Itoa(min(code, maxRejectionCode)), no).Inc()
}

func (m *metrics) allowed(h *hook, phase string, a *admission.Attributes, got *answer) {
	m.observe(h, phase, a, got, 200, false)
}

func (m *metrics) denied(h *hook, phase string, a *admission.Attributes, got *answer, refusal error) {
	code := int(apistatus.Of(refusal).Code)
	m.observe(h, phase, a, got, code, true)
	m.rejections.WithLabelValues(h.name, phase, string(a.Operation), "no_error", strconv.Itoa(min(code, maxRejectionCode))).Inc()
}

func (m *metrics) openFailure(h *hook, phase string, a *admission.Attributes, got *answer) {
	m.observe(h, phase, a, got, 0, false)
	m.openFails.WithLabelValues(h.name, phase).Inc()
	m.rejections.WithLabelValues(h.name, phase, string(a.Operation), "calling_webhook_error", "0").Inc()
}

// failed counts a call that failed, or a patch that could not be applied.
func (m *metrics) failed(h *hook, phase string, a *admission.Attributes, got *answer, err error) {
	kind := "calling_webhook_error"
	if apierrors.IsInternalError(err) {
		kind = "apiserver_internal_error"
	}
	m.observe(h, phase, a, got, 500, true)
	m.rejections.WithLabelValues(h.name, phase, string(a.Operation), kind, "0").Inc()
}
