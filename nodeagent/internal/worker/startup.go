package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
)

// startBuckets are Kubernetes' bounds of the times that pods take to start, and smaller ones: here most have started within the least of Kubernetes'.
var startBuckets = []float64{.05, .1, .25, .5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

// startups measures how long pods take from their creation until the API tells that all their containers run.
type startups struct {
	clock clock.PassiveClock
	// total is all of the time. sli is without what others than the cluster answer for: pulls of images and runs of init containers, and without pods that
	// have volumes of which the same holds.
	total, sli prometheus.Histogram

	mu      sync.Mutex
	pulling map[types.UID]time.Duration // of pods that are starting
}

func newStartups(clk clock.PassiveClock) *startups {
	return &startups{
		clock: clk, pulling: map[types.UID]time.Duration{},
		total: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_start_total_duration_seconds", Help: "Time from a pod's creation until the API tells that its containers run.", Buckets: startBuckets,
		}),
		sli: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_start_sli_duration_seconds",
			Help:    "Time from the creation of a pod without lasting volumes until the API tells that its containers run, less that of image pulls and init containers.",
			Buckets: startBuckets,
		}),
	}
}

// seen hears of a pod whenever the API has something new of it.
func (s *startups) seen(p *corev1.Pod) {
	if p.CreationTimestamp.IsZero() || pod.Static(p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pulling, starting := s.pulling[p.UID]
	switch {
	case pod.Finished(p), p.DeletionTimestamp != nil:
		delete(s.pulling, p.UID)
	case !starting && p.Status.StartTime == nil:
		s.pulling[p.UID] = 0
	case starting && runs(p):
		delete(s.pulling, p.UID)
		took := s.clock.Since(p.CreationTimestamp.Time)
		s.total.Observe(took.Seconds())
		if !lasting(p) {
			s.sli.Observe(max(took-pulling-preparing(p), 0).Seconds())
		}
	}
}

// pulled notes how long a pull of an image has taken.
func (s *startups) pulled(uid types.UID, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, starting := s.pulling[uid]; starting {
		s.pulling[uid] = before + took
	}
}

func (s *startups) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pulling, uid)
}

// runs reports whether all of a pod's containers do.
func runs(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == len(p.Spec.Containers) &&
		!slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
}

// lasting reports whether a pod has volumes beside those that the node makes for it.
func lasting(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil
	})
}

// preparing is how long the pod's init containers have run.
func preparing(p *corev1.Pod) time.Duration {
	var sum time.Duration
	for i := range p.Status.InitContainerStatuses {
		if end := p.Status.InitContainerStatuses[i].State.Terminated; end != nil {
			sum += end.FinishedAt.Sub(end.StartedAt.Time)
		}
	}
	return sum
}
