package podautoscaler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Metrics are Kubernetes' metrics of autoscalers. A nil one measures nothing.
type Metrics struct {
	reconciled, computed         *prometheus.CounterVec
	reconcileTime, computingTime *prometheus.HistogramVec
	count                        prometheus.Gauge
	desired                      *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	const subsystem = "horizontal_pod_autoscaler_controller"
	buckets := prometheus.ExponentialBuckets(0.001, 2, 15)
	whole, one := []string{"action", "error"}, []string{"action", "error", "metric_type"}
	m := &Metrics{
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "reconciliations_total", Help: "How often an autoscaler was looked at, by what was done: scale_up, scale_down or none.",
		}, whole),
		reconcileTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "reconciliation_duration_seconds", Help: "How long it took to look at an autoscaler.", Buckets: buckets,
		}, whole),
		computed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "metric_computation_total", Help: "How often a metric was judged, by what it asked for: scale_up, scale_down or none.",
		}, one),
		computingTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "metric_computation_duration_seconds", Help: "How long it took to read a metric.", Buckets: buckets,
		}, one),
		count: prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", Help: "How many autoscalers there are."}),
		desired: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "desired_replicas", Help: "How many replicas an autoscaler wants.",
		}, []string{"namespace", "hpa_name"}),
	}
	registerer.MustRegister(m.reconciled, m.reconcileTime, m.computed, m.computingTime, m.count, m.desired)
	return m
}

// began forgets the leadership before.
func (m *Metrics) began() {
	if m != nil {
		m.count.Set(0)
		m.desired.Reset()
	}
}

// add counts autoscalers.
func (m *Metrics) add(n float64) {
	if m != nil {
		m.count.Add(n)
	}
}

// looked measures that an autoscaler was looked at, and that its target was scaled from some replicas to others.
func (m *Metrics) looked(from, to int32, o outcome, took time.Duration) {
	if m != nil {
		labels := []string{action(from, to), o.label()}
		m.reconciled.WithLabelValues(labels...).Inc()
		m.reconcileTime.WithLabelValues(labels...).Observe(took.Seconds())
	}
}

// judged measures one metric.
func (m *Metrics) judged(v Verdict, current int32, took time.Duration) {
	if m == nil {
		return
	}
	o, wanted := outcome{v.Err, v.Spec}, v.Replicas
	if v.Err != nil {
		wanted = current
	}
	labels := []string{action(current, wanted), o.label(), string(v.Type)}
	m.computed.WithLabelValues(labels...).Inc()
	m.computingTime.WithLabelValues(labels...).Observe(took.Seconds())
}

// wants notes what an autoscaler wants.
func (m *Metrics) wants(h *autoscalingv2.HorizontalPodAutoscaler, replicas int32) {
	if m != nil {
		m.desired.WithLabelValues(h.Namespace, h.Name).Set(float64(replicas))
	}
}

// forget drops an autoscaler that has gone.
func (m *Metrics) forget(namespace, name string) {
	if m != nil {
		m.desired.DeleteLabelValues(namespace, name)
	}
}

// outcome is how something ended; spec says that the autoscaler itself is wrong.
type outcome struct {
	err  error
	spec bool
}

func (o outcome) label() string {
	switch {
	case o.err == nil:
		return "none"
	case o.spec:
		return "spec"
	}
	return "internal"
}

func action(from, to int32) string {
	switch {
	case to > from:
		return "scale_up"
	case to < from:
		return "scale_down"
	}
	return "none"
}
