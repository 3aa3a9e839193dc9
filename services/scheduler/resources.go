package scheduler

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"howdah.dev/kit/object"
)

// podResources reports what each pod asks for when it is scraped: those that wait, too, but not those that have ended.
type podResources struct{ pods *object.Informer[*corev1.Pod] }

var (
	resourceLabels = []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}
	podRequest     = prometheus.NewDesc("kube_pod_resource_request", "What a pod requests of a resource, as it counts on its node.", resourceLabels, nil)
	podLimit       = prometheus.NewDesc("kube_pod_resource_limit", "What a pod may use of a resource.", resourceLabels, nil)
)

// Describe implements prometheus.Collector.
func (p podResources) Describe(ch chan<- *prometheus.Desc) { ch <- podRequest; ch <- podLimit }

// Collect implements prometheus.Collector.
func (p podResources) Collect(ch chan<- prometheus.Metric) {
	for _, pod := range p.pods.List("") {
		if pod.Spec.NodeName != "" && ended(pod) {
			continue
		}
		tell(ch, podRequest, pod, resource.PodRequests(pod, resource.PodResourcesOptions{}))
		tell(ch, podLimit, pod, resource.PodLimits(pod, resource.PodResourcesOptions{}))
	}
}

func tell(ch chan<- prometheus.Metric, d *prometheus.Desc, pod *corev1.Pod, list corev1.ResourceList) {
	priority := ""
	if pod.Spec.Priority != nil {
		priority = strconv.Itoa(int(*pod.Spec.Priority))
	}
	for name, amount := range list {
		if !amount.IsZero() {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, amount.AsApproximateFloat64(),
				pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unit(name))
		}
	}
}

// unit is what an amount counts, "" for the units of an extended resource.
func unit(name corev1.ResourceName) string {
	switch {
	case name == corev1.ResourceCPU:
		return "cores"
	case name == corev1.ResourceMemory, name == corev1.ResourceStorage, name == corev1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
