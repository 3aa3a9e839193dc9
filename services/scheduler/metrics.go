package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/queue"
)

// metrics bear the names of Kubernetes' scheduler where they mean the same. Nil ones count nothing.
type metrics struct {
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	cycles   prometheus.Histogram
	pods     *prometheus.HistogramVec
	tries    prometheus.Histogram
	flushed  prometheus.Counter

	points *prometheus.HistogramVec
	ran    *prometheus.HistogramVec
	asked  *prometheus.CounterVec
	hints  *prometheus.HistogramVec
	events *prometheus.HistogramVec

	preemptions prometheus.Counter
	victims     prometheus.Histogram

	volumes *prometheus.CounterVec
	// claims counts those that the scheduler made for extended resources.
	claims  *prometheus.CounterVec
	binding prometheus.Gauge

	// conditional counts devices that have to be made ready, conditions has how long that took.
	conditional *prometheus.CounterVec
	conditions  *prometheus.HistogramVec

	// chance says whether one of those is timed of which a part is.
	chance func() bool
}

// timedPercent is of how many of a hundred calls of single plugins the time is taken, as in Kubernetes.
const timedPercent = 10

// attemptsTold bounds the label of attempts.
const attemptsTold = 15

func newMetrics(registerer prometheus.Registerer, state state) *metrics {
	seconds := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total", Help: "Attempts to schedule pods, by result and by the schedulerName of their profile.",
		}, []string{"result", "profile"}),
		took: seconds("scheduler_scheduling_attempt_duration_seconds", "Time from the beginning of the cycle that a pod is in to its binding, or until it is known that it has no node.",
			prometheus.ExponentialBuckets(0.001, 2, 15), "result", "profile"),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_algorithm_duration_seconds", Help: "Time to place a group of identical pods.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		pods: seconds("scheduler_pod_scheduling_sli_duration_seconds", "Time from when a pod could first be tried to its binding, by how many attempts that took.",
			append([]float64{0.00125, 0.0025, 0.005}, prometheus.ExponentialBuckets(0.01, 2, 20)...), "attempts"),
		tries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_attempts", Help: "Attempts until a pod was bound.", Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		flushed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_pod_scheduled_after_flush_total", Help: "Pods that were bound in an attempt for which nothing had woken them: what made room was not noticed.",
		}),
		points: seconds("scheduler_framework_extension_point_duration_seconds", "Time that all plugins of an extension point took for the pods of a round.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "extension_point", "status", "profile"),
		ran: seconds("scheduler_plugin_execution_duration_seconds", "Time that a plugin took at an extension point, in one of ten cycles.",
			prometheus.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "extension_point", "status"),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_plugin_evaluation_total", Help: "How often plugins had something to say of pods (PreFilter, PreScore) and were asked about nodes (Filter, Score).",
		}, []string{"plugin", "extension_point", "profile"}),
		hints: seconds("scheduler_queueing_hint_execution_duration_seconds", "Time to say whether an event may help a pod that a plugin refused, of one question in ten.",
			prometheus.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "event", "hint"),
		events: seconds("scheduler_event_handling_duration_seconds", "Time to follow a change of the cluster.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "event"),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_preemption_attempts_total", Help: "Total preemption attempts in the cluster till now",
		}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_preemption_victims", Help: "Number of selected preemption victims",
			Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		chance: func() bool { return rand.IntN(100) < timedPercent },
	}
	m.volumes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_scheduling_stage_error_total", Help: "Volume scheduling stage error count",
	}, []string{"operation"})
	m.claims = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_resourceclaim_creates_total", Help: "Number of ResourceClaims creation requests within scheduler",
	}, []string{"status"})
	m.conditional = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_dra_bindingconditions_allocations_total", Help: "Devices with conditions for binding of pods that had a node, by how the attempt came out.",
	}, []string{"profile", "driver", "status"})
	m.conditions = seconds("scheduler_dra_bindingconditions_wait_duration_seconds", "Time that a pod waited on its node for a device to be ready.",
		prometheus.ExponentialBuckets(0.1, 2, 14), "profile", "driver", "status")
	goroutines := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "scheduler_goroutines", Help: "Goroutines that are at work, by what they do."}, []string{"operation"})
	m.binding = goroutines.WithLabelValues("binding")
	registerer.MustRegister(m.attempts, m.took, m.cycles, m.pods, m.tries, m.flushed, m.points, m.ran, m.asked, m.hints, m.events,
		m.preemptions, m.victims, m.volumes, m.claims, m.conditional, m.conditions, goroutines, state)
	return m
}

// bound counts a pod that is on its node.
func (m *metrics) bound(item *queue.Item, now time.Time) {
	attempts := item.Attempts + 1
	m.tries.Observe(float64(attempts))
	label := strconv.Itoa(attempts)
	if attempts >= attemptsTold {
		label = strconv.Itoa(attemptsTold) + "+"
	}
	m.pods.WithLabelValues(label).Observe(now.Sub(item.Since).Seconds())
	if item.Flushed {
		m.flushed.Inc()
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

// devicesReady counts the devices for which a pod waited, by their drivers, once they are ready or will not be.
func (m *profileMetrics) devicesReady(drivers []string, waited time.Duration, err error) {
	if m == nil {
		return
	}
	status := "success"
	switch {
	case err == nil:
	case errors.Is(err, device.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		status = "timeout"
	case errors.Is(err, device.ErrFailed):
		status = "failure"
	default:
		status = "error"
	}
	for _, driver := range drivers {
		m.conditional.WithLabelValues(m.profile, driver, status).Inc()
		m.conditions.WithLabelValues(m.profile, driver, status).Observe(waited.Seconds())
	}
}

// handled counts a change of the cluster. No event is one that does not matter to pods.
func (m *metrics) handled(event queue.Event, took time.Duration) {
	if m != nil && event != "" {
		m.events.WithLabelValues(string(event)).Observe(took.Seconds())
	}
}

// timed says whether to take the time of a call.
func (m *metrics) timed() bool { return m != nil && m.chance() }

// hinted notes what a plugin said of an event, in Kubernetes' words.
func (m *metrics) hinted(plugin string, event queue.Event, helps bool, took time.Duration) {
	hint := "QueueSkip"
	if helps {
		hint = "Queue"
	}
	m.hints.WithLabelValues(plugin, string(event), hint).Observe(took.Seconds())
}

// result is what became of an attempt.
type result string

const (
	scheduled     result = "scheduled"
	unschedulable result = "unschedulable"
	failed        result = "error"
)

// profileMetrics are those of a profile. What each cycle tells has its labels resolved.
type profileMetrics struct {
	*metrics
	profile  string
	attempts map[result]attempts
	success  map[plugin.Point]prometheus.Observer
	asked    [4][]prometheus.Counter // as in cycle.Asked; nil where the plugin is not at the point
}

type attempts struct {
	count prometheus.Counter
	took  prometheus.Observer
}

func (m *metrics) of(name string, p cycle.Profile) *profileMetrics {
	own := &profileMetrics{metrics: m, profile: name, attempts: map[result]attempts{}, success: map[plugin.Point]prometheus.Observer{}}
	for _, r := range []result{scheduled, unschedulable, failed} {
		own.attempts[r] = attempts{m.attempts.WithLabelValues(string(r), name), m.took.WithLabelValues(string(r), name)}
	}
	for _, point := range []plugin.Point{plugin.PreFilter, plugin.Filter, plugin.PreScore, plugin.Score, plugin.Bind} {
		own.success[point] = m.points.WithLabelValues(label(point), string(cycle.Success), name)
	}
	counter := func(plugin string, point plugin.Point) prometheus.Counter {
		if !at(plugin, point) {
			return nil
		}
		return m.asked.WithLabelValues(plugin, label(point), name)
	}
	for _, f := range p.Filters {
		own.asked[0] = append(own.asked[0], counter(f.Name, plugin.PreFilter))
		own.asked[1] = append(own.asked[1], counter(f.Name, plugin.Filter))
	}
	for _, s := range p.Scores {
		own.asked[2] = append(own.asked[2], counter(s.Name, plugin.PreScore))
		own.asked[3] = append(own.asked[3], counter(s.Name, plugin.Score))
	}
	return own
}

// at reports whether Kubernetes has a plugin at a point: some prepare here what they do there node by node.
func at(name string, point plugin.Point) bool {
	p := plugin.Find(name)
	return p != nil && p.At(point)
}

// label is what metrics call an extension point.
func label(point plugin.Point) string { return strings.ToUpper(string(point[:1])) + string(point[1:]) }

// attempt counts one for one pod.
func (m *profileMetrics) attempt(r result, took time.Duration) {
	if m == nil {
		return
	}
	m.attempts[r].count.Inc()
	m.attempts[r].took.Observe(took.Seconds())
}

// point notes what an extension point took.
func (m *profileMetrics) point(point plugin.Point, code cycle.Code, took time.Duration) {
	if m == nil {
		return
	}
	observer := m.success[point]
	if code != cycle.Success || observer == nil {
		observer = m.points.WithLabelValues(label(point), string(code), m.profile)
	}
	observer.Observe(took.Seconds())
}

// cycle counts one that has placed a group.
func (m *profileMetrics) cycle(t cycle.Timing) {
	if m == nil {
		return
	}
	m.cycles.Observe(t.End.Sub(t.Start).Seconds())
	for _, took := range t.Took {
		m.point(took.Point, took.Code, took.Time)
	}
	for i, counts := range [...][]int{t.Asked.PreFilter, t.Asked.Filter, t.Asked.PreScore, t.Asked.Score} {
		for plugin, count := range counts {
			if counter := m.asked[i][plugin]; counter != nil && count > 0 {
				counter.Add(float64(count))
			}
		}
	}
	for _, ran := range t.Ran {
		if at(ran.Plugin, ran.Point) {
			m.run(ran.Plugin, ran.Point, ran.Code, ran.Time)
		}
	}
}

// run notes what a plugin took.
func (m *profileMetrics) run(plugin string, point plugin.Point, code cycle.Code, took time.Duration) {
	m.ran.WithLabelValues(plugin, label(point), string(code)).Observe(took.Seconds())
}
