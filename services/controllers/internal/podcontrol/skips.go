package podcontrol

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Skips counts reconciles that are put off while a cache is behind, as Kubernetes' controllers count them. A nil one counts nothing.
type Skips struct{ counter *prometheus.CounterVec }

// NewSkips registers the count of a controller.
func NewSkips(registerer prometheus.Registerer, subsystem string) *Skips {
	s := &Skips{prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", Help: "Reconciles that were skipped because a cache was behind.",
	}, []string{"group", "resource"})}
	registerer.MustRegister(s.counter)
	return s
}

// Count counts a reconcile that waits for the cache of a resource.
func (s *Skips) Count(of schema.GroupResource) {
	if s != nil {
		s.counter.WithLabelValues(of.Group, of.Resource).Inc()
	}
}
