package replicaset

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// Metrics are Kubernetes' metrics of sets of replicas. A nil one measures nothing.
type Metrics struct {
	ages    prometheus.Histogram
	skipped *podcontrol.Skips
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{ages: prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "replicaset_controller", Name: "sorting_deletion_age_ratio",
		Help:    "How many times as old as the youngest ready pod of its set one was that was chosen to go, being ready itself.",
		Buckets: prometheus.ExponentialBuckets(0.25, 2, 6),
	})}
	registerer.MustRegister(m.ages)
	m.skipped = podcontrol.NewSkips(registerer, "replicaset_controller")
	return m
}

// stale counts a reconcile that waits for the cache of its kind.
func (m *Metrics) stale(of schema.GroupVersionKind) {
	if m != nil {
		resource, _ := meta.UnsafeGuessKindToResource(of)
		m.skipped.Count(resource.GroupResource())
	}
}

// chose measures pods that were chosen to go of all that a set has, unless all of them go.
func (m *Metrics) chose(chosen, all []*corev1.Pod, now time.Time) {
	if m == nil || len(chosen) == 0 {
		return
	}
	going, stays := map[*corev1.Pod]bool{}, false
	for _, p := range chosen {
		going[p] = true
	}
	var youngest time.Time
	for _, p := range all {
		if !pod.Active(p) {
			continue
		}
		stays = stays || !going[p]
		if pod.Ready(p) && p.CreationTimestamp.After(youngest) {
			youngest = p.CreationTimestamp.Time
		}
	}
	age := now.Sub(youngest)
	if !stays || age <= 0 { // one that is as young as the clock can tell compares to nothing
		return
	}
	for _, p := range chosen {
		if pod.Ready(p) {
			m.ages.Observe(float64(now.Sub(p.CreationTimestamp.Time)) / float64(age))
		}
	}
}
