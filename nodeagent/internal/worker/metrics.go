package worker

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	crierrors "k8s.io/cri-api/pkg/errors"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/container"
)

var machineResources = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// Metrics of the pods of a node, under the names that dashboards for
// Kubernetes look for.
type Metrics struct {
	clock clock.PassiveClock
	start prometheus.Histogram
	// Of image volumes: asked for, mounted, and refused by the runtime.
	imagesAsked, imagesMounted, imagesFailed prometheus.Counter
	// Of pods with users of their own.
	usersStarted, usersFailed prometheus.Counter
	// Of all pods, and of containers by kind.
	podsStarted, podsFailed             prometheus.Counter
	containersStarted, containersFailed *prometheus.CounterVec
	rejections                          *prometheus.CounterVec
	restarts                            prometheus.Counter
	preemptions                         *prometheus.CounterVec
	terminations                        *prometheus.CounterVec

	*startups
	*resizes
	// Of the workers' rounds.
	rounds          [len(operationNames)]prometheus.Observer
	began, perPod   prometheus.Histogram
	orphans, awoken prometheus.Counter
	fellBack        prometheus.Counter
	manager         atomic.Pointer[Manager] // whose pods are counted

	mu       sync.Mutex
	statuses map[types.UID]*corev1.PodStatus // as last observed; never changed
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer, clk clock.PassiveClock) *Metrics {
	m := &Metrics{clock: clk, startups: newStartups(clk), statuses: map[types.UID]*corev1.PodStatus{}}
	m.resizes = newResizes(m)
	m.start = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pod_start_duration_seconds", Help: "Time from the node's first sight of a pod to its containers running.",
		Buckets: startBuckets,
	})
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_running_pods", Help: "Pods whose containers run.",
	}, m.running)
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_image_volume_" + name, Help: help})
	}
	m.imagesAsked = count("requested_total", "Image volumes that containers asked for.")
	m.imagesMounted = count("mounted_succeed_total", "Image volumes that were mounted.")
	m.imagesFailed = count("mounted_errors_total", "Image volumes that could not be mounted.")
	m.usersStarted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_started_user_namespaced_pods_total", Help: "Pods with users of their own for which a sandbox was asked for.",
	})
	m.usersFailed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_started_user_namespaced_pods_errors_total", Help: "Sandboxes and containers of pods with users of their own that could not be made or started.",
	})
	m.podsStarted = prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total", Help: "Sandboxes that were asked for."})
	m.podsFailed = prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_errors_total", Help: "Sandboxes that could not be made."})
	m.containersStarted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_started_containers_total", Help: "Containers that were to be started, by kind.",
	}, []string{"container_type"})
	m.containersFailed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_started_containers_errors_total", Help: "Containers that could not be started, by kind and reason.",
	}, []string{"container_type", "code"})
	m.rejections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_admission_rejections_total", Help: "Pods that the node did not take, by reason.",
	}, []string{"reason"})
	m.preemptions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_preemptions", Help: "Pods that the node ended to make room for pods of the system's priorities, by what these lacked.",
	}, []string{"preemption_signal"})
	m.restarts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "howdah_nodeagent_pod_restarts_total", Help: "How often all containers of a pod started over because of a rule of one of them.",
	})
	m.terminations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_terminated_containers_total", Help: "Containers that ended, by kind, exit code and reason.",
	}, []string{"container_type", "exit_code", "reason"})
	rounds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_pod_worker_duration_seconds", Help: "Time from when a pod's worker was asked for something until it had done what there was to do, by what it was asked for.",
		Buckets: prometheus.DefBuckets,
	}, []string{"operation_type"})
	for o := range m.rounds {
		m.rounds[o] = rounds.WithLabelValues(operation(o).String())
	}
	m.began = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_pod_worker_start_duration_seconds", Help: "Time from the agent's first sight of a pod until its worker takes care of it.", Buckets: prometheus.DefBuckets,
	})
	m.perPod = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "kubelet_containers_per_pod_count", Help: "How many containers pods have that the node took, init containers aside.", Buckets: prometheus.ExponentialBuckets(1, 2, 5),
	})
	m.orphans = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_orphaned_runtime_pods_total", Help: "Pods that the agent ended because only the runtime knew them.",
	})
	m.awoken = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_sleep_action_terminated_early_total", Help: "Hooks that were to sleep longer than they could.",
	})
	m.fellBack = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_lifecycle_handler_http_fallbacks_total", Help: "Hooks that were to be asked by HTTPS and answered by HTTP.",
	})
	if registerer != nil {
		registerer.MustRegister(m.fellBack, rounds, m.began, m.perPod, m.orphans, m.awoken, podsByState{m}, m.total, m.sli)
		m.resizes.register(registerer)
		registerer.MustRegister(m.start, running, m.imagesAsked, m.imagesMounted, m.imagesFailed, m.usersStarted, m.usersFailed, m.podsStarted, m.podsFailed, m.containersStarted, m.containersFailed, containersByState{m}, m.rejections, m.preemptions, m.restarts, m.terminations)
	}
	return m
}

func (m *Metrics) running() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	for _, status := range m.statuses {
		if status.Phase == corev1.PodRunning {
			count++
		}
	}
	return float64(count)
}

// observe notes a pod's state, which nobody changes afterwards. What the agent's life before this one has told of the pod is in the API's.
func (m *Metrics) observe(p *corev1.Pod, s *corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.statuses[p.UID]
	m.statuses[p.UID] = s
	again := slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }) // a pod that starts over is pending once more
	if known && s.Phase == corev1.PodRunning && before.Phase == corev1.PodPending && s.StartTime != nil && !again {
		m.start.Observe(m.clock.Since(s.StartTime.Time).Seconds())
	}
	if !known {
		before = &p.Status
	}
	m.terminated("init_container", before.InitContainerStatuses, s.InitContainerStatuses)
	m.terminated("container", before.ContainerStatuses, s.ContainerStatuses)
	m.terminated("ephemeral_container", before.EphemeralContainerStatuses, s.EphemeralContainerStatuses)
}

// terminated counts the containers that have ended since before.
func (m *Metrics) terminated(kind string, before, now []corev1.ContainerStatus) {
	for i := range now {
		end := now[i].State.Terminated
		if end == nil || slices.ContainsFunc(before, func(c corev1.ContainerStatus) bool {
			return c.Name == now[i].Name && c.State.Terminated != nil
		}) {
			continue
		}
		m.terminations.WithLabelValues(kind, strconv.Itoa(int(end.ExitCode)), end.Reason).Inc()
	}
}

// containersByState tells how many containers are in which state.
type containersByState struct{ m *Metrics }

var runningContainers = prometheus.NewDesc("kubelet_running_containers", "Containers by state: running or exited.", []string{"container_state"}, nil)

// Describe implements prometheus.Collector.
func (c containersByState) Describe(out chan<- *prometheus.Desc) { out <- runningContainers }

// Collect implements prometheus.Collector.
func (c containersByState) Collect(out chan<- prometheus.Metric) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	count := map[string]int{"running": 0, "exited": 0}
	for _, s := range c.m.statuses {
		for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
			for i := range list {
				switch {
				case list[i].State.Running != nil:
					count["running"]++
				case list[i].State.Terminated != nil:
					count["exited"]++
				}
			}
		}
	}
	for state, n := range count {
		out <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, float64(n), state)
	}
}

// kindOf is the kind of a pod's container in the labels of metrics.
func kindOf(p *corev1.Pod, name string) string {
	switch {
	case slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }):
		return "init_container"
	case slices.ContainsFunc(p.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name }):
		return "ephemeral_container"
	}
	return "container"
}

// mounted counts the image volumes of a container that was made, or failed to be with err.
func (m *Metrics) mounted(c *corev1.Container, images map[string]container.VolumeImage, err error) {
	for i := range c.VolumeMounts {
		if _, ok := images[c.VolumeMounts[i].Name]; !ok {
			continue
		}
		m.imagesAsked.Inc()
		switch {
		case err == nil:
			m.imagesMounted.Inc()
		case strings.Contains(err.Error(), crierrors.ErrImageVolumeMountFailed.Error()):
			m.imagesFailed.Inc()
		}
	}
}

// starting counts a pod whose sandbox is to be made.
func (m *Metrics) starting(p *corev1.Pod) {
	m.podsStarted.Inc()
	if container.OwnUsers(p) {
		m.usersStarted.Inc()
	}
}

// unstarted counts a pod with users of its own whose sandbox, or a container of which, could not be made or started.
func (m *Metrics) unstarted(p *corev1.Pod) {
	if container.OwnUsers(p) {
		m.usersFailed.Inc()
	}
}

// rejected counts a pod that the node did not take. Resources that are not every machine's share a reason, so that there are not as many as devices.
func (m *Metrics) rejected(reason string) {
	if name, ok := strings.CutPrefix(reason, "OutOf"); ok && !slices.Contains(machineResources, corev1.ResourceName(name)) {
		reason = "OutOfExtendedResources"
	}
	m.rejections.WithLabelValues(reason).Inc()
}

// preempted counts a pod that ended to make room.
// preempted counts a pod that had to go for another that lacks a resource.
func (m *Metrics) preempted(lacking string) { m.preemptions.WithLabelValues(lacking).Inc() }

// restarted counts a pod whose containers all start over.
func (m *Metrics) restarted() { m.restarts.Inc() }

// worked tells of rounds that are done, and since when they were wanted.
func (m *Metrics) worked(what operation, since time.Time) {
	m.rounds[what].Observe(m.clock.Since(since).Seconds())
}

// took tells of a pod that the node took, and when it was first seen.
func (m *Metrics) took(p *corev1.Pod, seen time.Time) {
	m.began.Observe(m.clock.Since(seen).Seconds())
	m.perPod.Observe(float64(len(p.Spec.Containers)))
}

func (m *Metrics) forget(uid types.UID) {
	m.startups.forget(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.statuses, uid)
}
