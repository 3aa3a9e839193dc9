package podgc

import "github.com/prometheus/client_golang/prometheus"

// Metrics are Kubernetes' metrics of pods that are removed. A nil one measures nothing.
type Metrics struct{ pods, errors *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "pod_gc_collector", Name: name, Help: help}, []string{"namespace", "reason"})
	}
	m := &Metrics{
		pods:   counter("force_delete_pods_total", "Pods that were to be removed without grace, by why."),
		errors: counter("force_delete_pod_errors_total", "Pods that could not be removed, by why they should have been."),
	}
	registerer.MustRegister(m.pods, m.errors)
	return m
}

// removed counts a removal, which may have failed.
func (m *Metrics) removed(r Removal, err error) {
	if m == nil {
		return
	}
	m.pods.WithLabelValues(r.Pod.Namespace, r.Cause).Inc()
	if err != nil {
		m.errors.WithLabelValues(r.Pod.Namespace, r.Cause).Inc()
	}
}

// forget drops a namespace that is gone.
func (m *Metrics) forget(namespace string) {
	if m != nil {
		m.pods.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
		m.errors.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
	}
}
