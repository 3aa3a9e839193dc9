package plugin

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	psapi "k8s.io/pod-security-admission/api"
	psmetrics "k8s.io/pod-security-admission/metrics"
)

// podSecurityMetrics count what PodSecurity decides, under Kubernetes' names.
type podSecurityMetrics struct{ evaluations, exemptions, failures *prometheus.CounterVec }

func newPodSecurityMetrics(registerer prometheus.Registerer) *podSecurityMetrics {
	m := &podSecurityMetrics{
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_evaluations_total", Help: "Policy evaluations that occurred, not counting ignored or exempt requests.",
		}, []string{"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"}),
		exemptions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_exemptions_total", Help: "Exempt requests, not counting ignored or out of scope ones.",
		}, []string{"request_operation", "resource", "subresource"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_errors_total", Help: "Errors that kept from a normal evaluation; those that are not fatal led to the restricted policy.",
		}, []string{"fatal", "request_operation", "resource", "subresource"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.evaluations, m.exemptions, m.failures)
	}
	return m
}

func about(attrs psapi.Attributes) (operation, resource string) {
	resource = "controller"
	switch r := attrs.GetResource().Resource; r {
	case "pods", "namespaces":
		resource = strings.TrimSuffix(r, "s")
	}
	return strings.ToLower(string(attrs.GetOperation())), resource
}

// RecordEvaluation implements metrics.Recorder.
func (m *podSecurityMetrics) RecordEvaluation(d psmetrics.Decision, p psapi.LevelVersion, mode psmetrics.Mode, attrs psapi.Attributes) {
	version := p.Version.String()
	if p.Level == psapi.LevelPrivileged {
		version = "latest"
	}
	operation, resource := about(attrs)
	m.evaluations.WithLabelValues(string(d), string(p.Level), version, string(mode), operation, resource, attrs.GetSubresource()).Inc()
}

// RecordExemption implements metrics.Recorder.
func (m *podSecurityMetrics) RecordExemption(attrs psapi.Attributes) {
	operation, resource := about(attrs)
	m.exemptions.WithLabelValues(operation, resource, attrs.GetSubresource()).Inc()
}

// RecordError implements metrics.Recorder.
func (m *podSecurityMetrics) RecordError(fatal bool, attrs psapi.Attributes) {
	operation, resource := about(attrs)
	m.failures.WithLabelValues(strconv.FormatBool(fatal), operation, resource, attrs.GetSubresource()).Inc()
}
