package worker

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/nodeagent/internal/pod"
)

// resizes counts changes of the resources that pods ask for, under a kubelet's names.
type resizes struct {
	asked, accepted, refused *prometheus.CounterVec
	millis                   *prometheus.HistogramVec
	waiting                  resizesByState
}

func newResizes(m *Metrics) *resizes {
	return &resizes{
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_container_requested_resizes_total", Help: "Changes of what containers ask for, by resource, by request or limit, and by what has become of it.",
		}, []string{"resource", "requirement", "operation"}),
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_pod_deferred_accepted_resizes_total", Help: "Changes of resources that had to wait and were then accepted, by what made them be tried again.",
		}, []string{"retry_trigger"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_pod_infeasible_resizes_total", Help: "Changes of resources that the node can never make, by why.",
		}, []string{"reason_detail"}),
		millis: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_pod_resize_duration_milliseconds", Help: "How long it took to give a pod other resources, in milliseconds, by whether it got them.",
			Buckets: []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000},
		}, []string{"success"}),
		waiting: resizesByState{m},
	}
}

func (r *resizes) register(registerer prometheus.Registerer) {
	registerer.MustRegister(r.asked, r.accepted, r.refused, r.millis, r.waiting)
}

// requested counts what a newer specification of a pod changes of its containers' resources.
func (r *resizes) requested(before, now *corev1.Pod) {
	for i := range now.Spec.InitContainers {
		if c := &now.Spec.InitContainers[i]; pod.Sidecar(c) {
			r.compare(pod.Find(before, c.Name), c)
		}
	}
	for i := range now.Spec.Containers {
		c := &now.Spec.Containers[i]
		r.compare(pod.Find(before, c.Name), c)
	}
}

func (r *resizes) compare(before, now *corev1.Container) {
	if before == nil {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if what := change(before.Resources.Requests[name], now.Resources.Requests[name]); what != "" {
			r.asked.WithLabelValues(string(name), "requests", what).Inc()
		}
		if what := change(before.Resources.Limits[name], now.Resources.Limits[name]); what != "" {
			r.asked.WithLabelValues(string(name), "limits", what).Inc()
		}
	}
}

// change is a kubelet's name for what has become of an amount, "" where nothing has.
func change(before, now resource.Quantity) string {
	switch way := now.Cmp(before); {
	case way == 0:
		return ""
	case now.IsZero():
		return "remove"
	case before.IsZero():
		return "add"
	case way < 0:
		return "decrease"
	}
	return "increase"
}

// resizing tells of an attempt to give a pod other resources.
func (r *resizes) resizing(took time.Duration, done bool) {
	r.millis.WithLabelValues(strconv.FormatBool(done)).Observe(float64(took.Milliseconds()))
}

// resizesByState tells of pods that do not have yet what they ask for.
type resizesByState struct{ m *Metrics }

var (
	pendingResizes    = prometheus.NewDesc("kubelet_pod_pending_resizes", "Pods that do not get the resources that they ask for, by why.", []string{"reason"}, nil)
	inProgressResizes = prometheus.NewDesc("kubelet_pod_in_progress_resizes", "Pods that are being given other resources.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c resizesByState) Describe(out chan<- *prometheus.Desc) {
	out <- pendingResizes
	out <- inProgressResizes
}

// Collect implements prometheus.Collector.
func (c resizesByState) Collect(out chan<- prometheus.Metric) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	pending, running := map[string]int{}, 0
	for _, s := range c.m.statuses {
		for i := range s.Conditions {
			switch s.Conditions[i].Type {
			case corev1.PodResizePending:
				pending[strings.ToLower(s.Conditions[i].Reason)]++
			case corev1.PodResizeInProgress:
				running++
			}
		}
	}
	for reason, n := range pending {
		out <- prometheus.MustNewConstMetric(pendingResizes, prometheus.GaugeValue, float64(n), reason)
	}
	out <- prometheus.MustNewConstMetric(inProgressResizes, prometheus.GaugeValue, float64(running))
}
