package scheduler

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/queue"
)

// state reports the queue and the cache when it is scraped.
type state struct {
	queue *queue.Queue
	cache *cluster.Cache
}

var (
	pendingPods       = prometheus.NewDesc("scheduler_pending_pods", "Pods that wait, by queue.", []string{"queue"}, nil)
	incomingPods      = prometheus.NewDesc("scheduler_queue_incoming_pods_total", "Pods that came to a queue, by what brought them there.", []string{"queue", "event"}, nil)
	unschedulablePods = prometheus.NewDesc("scheduler_unschedulable_pods", "Pods that wait because a plugin refused them, or does not let them be tried. A pod counts for each.", []string{"plugin", "profile"}, nil)
	cacheSize         = prometheus.NewDesc("scheduler_cache_size", "Nodes, the pods on them, and those of the pods that the API does not show there yet.", []string{"type"}, nil)
)

// Describe implements prometheus.Collector.
func (s state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pendingPods, incomingPods, unschedulablePods, cacheSize} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	for waits, count := range s.queue.Counts() {
		gauge(pendingPods, count, string(waits))
	}
	for move, count := range s.queue.Moves() {
		ch <- prometheus.MustNewConstMetric(incomingPods, prometheus.CounterValue, float64(count), string(move.To), string(move.Event))
	}
	type refusal struct{ plugin, profile string }
	refusals := map[refusal]int{}
	for blame, count := range s.queue.Blames() {
		for plugin := range strings.SplitSeq(blame.Plugins, causes) {
			refusals[refusal{plugin, blame.Scheduler}] += count
		}
	}
	for r, count := range refusals {
		gauge(unschedulablePods, count, r.plugin, r.profile)
	}
	nodes, pods, assumed := s.cache.Counts()
	gauge(cacheSize, nodes, "nodes")
	gauge(cacheSize, pods, "pods")
	gauge(cacheSize, assumed, "assumed_pods")
}
