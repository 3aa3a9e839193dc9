package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queueMetrics measure the queues under the names that Kubernetes' have. How long they are, and what is tried again, the controllers
// tell themselves.
type queueMetrics struct {
	adds               *prometheus.CounterVec
	waited, worked     *prometheus.HistogramVec
	unfinished, oldest *prometheus.GaugeVec
}

func newQueueMetrics() *queueMetrics {
	name := []string{"name"}
	buckets := prometheus.ExponentialBuckets(1e-8, 10, 12)
	return &queueMetrics{
		adds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workqueue_adds_total", Help: "Keys that were put into the queue.",
		}, name),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_queue_duration_seconds", Help: "How long keys waited in the queue.", Buckets: buckets,
		}, name),
		worked: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_work_duration_seconds", Help: "How long a key was worked on.", Buckets: buckets,
		}, name),
		unfinished: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workqueue_unfinished_work_seconds", Help: "How long all keys together have been worked on that are not done.",
		}, name),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workqueue_longest_running_processor_seconds", Help: "How long the oldest of them has been worked on.",
		}, name),
	}
}

var _ workqueue.MetricsProvider = (*queueMetrics)(nil)

// NewDepthMetric implements workqueue.MetricsProvider.
func (*queueMetrics) NewDepthMetric(string) workqueue.GaugeMetric { return ignored{} }

// NewRetriesMetric implements workqueue.MetricsProvider.
func (*queueMetrics) NewRetriesMetric(string) workqueue.CounterMetric { return ignored{} }

// NewAddsMetric implements workqueue.MetricsProvider.
func (q *queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

// NewLatencyMetric implements workqueue.MetricsProvider.
func (q *queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.waited.WithLabelValues(name)
}

// NewWorkDurationMetric implements workqueue.MetricsProvider.
func (q *queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.worked.WithLabelValues(name)
}

// NewUnfinishedWorkSecondsMetric implements workqueue.MetricsProvider.
func (q *queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}

// NewLongestRunningProcessorSecondsMetric implements workqueue.MetricsProvider.
func (q *queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.oldest.WithLabelValues(name)
}

// ignored is a metric that somebody else tells.
type ignored struct{}

func (ignored) Inc() {}
func (ignored) Dec() {}
