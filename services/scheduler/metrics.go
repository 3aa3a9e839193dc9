package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/queue"
)

// metrics bear the names of Kubernetes' scheduler where they mean the same.
type metrics struct {
	attempts *prometheus.CounterVec
	cycles   prometheus.Histogram
	pods     prometheus.Histogram

	preemptions prometheus.Counter
	victims     prometheus.Histogram

	volumes *prometheus.CounterVec
	// claims counts those that the scheduler made for extended resources.
	claims *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, counts func() map[queue.State]int) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total", Help: "Attempts to schedule pods, by result and by the schedulerName of their profile.",
		}, []string{"result", "profile"}),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_algorithm_duration_seconds", Help: "Time to place a group of identical pods.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		pods: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_sli_duration_seconds", Help: "Time from a pod's arrival to its binding.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_preemption_attempts_total", Help: "Total preemption attempts in the cluster till now",
		}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_preemption_victims", Help: "Number of selected preemption victims",
			Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
	}
	m.volumes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_scheduling_stage_error_total", Help: "Volume scheduling stage error count",
	}, []string{"operation"})
	m.claims = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_resourceclaim_creates_total", Help: "Number of ResourceClaims creation requests within scheduler",
	}, []string{"status"})
	registerer.MustRegister(m.attempts, m.cycles, m.pods, m.preemptions, m.victims, m.volumes, m.claims, pending{counts})
	return m
}

func (m *metrics) cycle(profile string, placements []cycle.Placement, t cycle.Timing) {
	m.cycles.Observe(t.End.Sub(t.Start).Seconds())
	for _, p := range placements {
		result := "scheduled"
		if p.Node == "" {
			result = "unschedulable"
		}
		m.attempts.WithLabelValues(result, profile).Inc()
	}
}

func (m *metrics) bound(took time.Duration) { m.pods.Observe(took.Seconds()) }

// pending reports the queue when it is scraped.
type pending struct{ counts func() map[queue.State]int }

var pendingPods = prometheus.NewDesc("scheduler_pending_pods", "Pods that wait, by queue.", []string{"queue"}, nil)

func (p pending) Describe(ch chan<- *prometheus.Desc) { ch <- pendingPods }

func (p pending) Collect(ch chan<- prometheus.Metric) {
	for state, count := range p.counts() {
		ch <- prometheus.MustNewConstMetric(pendingPods, prometheus.GaugeValue, float64(count), string(state))
	}
}

// claimMade counts a claim for extended resources.
func (m *metrics) claimMade(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.claims.WithLabelValues(status).Inc()
}
