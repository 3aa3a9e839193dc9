package statefulset

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// Metrics are Kubernetes' metrics of StatefulSets. A nil one measures nothing.
type Metrics struct {
	most, unavailable *prometheus.GaugeVec
	skipped           *podcontrol.Skips
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "statefulset_controller", Name: name, Help: help},
			[]string{"statefulset_namespace", "statefulset_name", "pod_management_policy"})
	}
	m := &Metrics{
		most:        gauge("statefulset_max_unavailable", "Pods of a StatefulSet that may be unavailable while it is rolled out."),
		unavailable: gauge("statefulset_unavailable_replicas", "Pods of a StatefulSet that are missing, going or not available."),
	}
	registerer.MustRegister(m.most, m.unavailable)
	m.skipped = podcontrol.NewSkips(registerer, "statefulset_controller")
	return m
}

// stale counts a reconcile that waits for the cache.
func (m *Metrics) stale() {
	if m != nil {
		m.skipped.Count(object.StatefulSet.GroupResource())
	}
}

// began forgets the leadership before.
func (m *Metrics) began() {
	if m != nil {
		m.most.Reset()
		m.unavailable.Reset()
	}
}

// seen measures a set as it is now. Those that are only updated by hand have no bound to keep.
func (m *Metrics) seen(set *appsv1.StatefulSet, seen Observed, now time.Time) {
	if m == nil {
		return
	}
	bound := intstr.FromInt32(1)
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		bound = *r.MaxUnavailable
	}
	labels := []string{set.Namespace, set.Name, string(set.Spec.PodManagementPolicy)}
	w := newWalk(set, seen, now)
	m.most.WithLabelValues(labels...).Set(float64(maxUnavailable(bound, len(w.replicas))))
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		m.unavailable.WithLabelValues(labels...).Set(float64(w.unavailable()))
	}
}

// forget drops a set that is gone.
func (m *Metrics) forget(set *appsv1.StatefulSet) {
	if m == nil {
		return
	}
	of := prometheus.Labels{"statefulset_namespace": set.Namespace, "statefulset_name": set.Name}
	m.most.DeletePartialMatch(of)
	m.unavailable.DeletePartialMatch(of)
}
