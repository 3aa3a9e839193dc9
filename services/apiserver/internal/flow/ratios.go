package flow

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/prometheusextension"
)

// ratio is a histogram of how large a number was in relation to another one, each nanosecond counting once. A nil one does nothing.
type ratio struct {
	mu    sync.Mutex
	gauge prometheusextension.GaugeOps
	n, of float64
}

func newRatio(vec *prometheusextension.TimingHistogramVec, labels ...string) *ratio {
	return &ratio{gauge: vec.WithLabelValues(labels...), of: 1}
}

// set changes the number.
func (r *ratio) set(n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.n {
		r.n = n
		r.gauge.Set(n / r.of)
	}
}

// add changes the number by some.
func (r *ratio) add(n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += n
	r.gauge.Set(r.n / r.of)
}

// relate changes what it is in relation to; less than 1 is 1.
func (r *ratio) relate(of float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of = max(of, 1); of != r.of {
		r.of = of
		r.gauge.Set(r.n / r.of)
	}
}

// ratios are Kubernetes' histograms of utilization.
type ratios struct {
	seats, requests, kinds, demand *prometheusextension.TimingHistogramVec
	// running and waiting are by whether requests write.
	running, waiting map[bool]*ratio
}

const (
	phaseWaiting = "waiting"
	phaseRunning = "executing"
)

func newRatios() *ratios {
	vec := func(name, help string, constant prometheus.Labels, buckets []float64, labels ...string) *prometheusextension.TimingHistogramVec {
		return prometheusextension.NewTimingHistogramVec(prometheusextension.TimingHistogramOpts{
			Name: "apiserver_flowcontrol_" + name, Help: help, ConstLabels: constant, Buckets: buckets,
		}, labels...)
	}
	r := &ratios{
		seats: vec("priority_level_seat_utilization", "Share of the level's seats that were taken, each nanosecond counted once.",
			prometheus.Labels{"phase": phaseRunning}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}, "priority_level"),
		requests: vec("priority_level_request_utilization", "Requests that waited, in relation to the room in the level's queues, or ran, to its seats, each nanosecond counted once.",
			nil, []float64{0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1}, "phase", "priority_level"),
		kinds: vec("read_vs_write_current_requests", "Requests that waited, in relation to the room in all queues, or ran, to all seats, each nanosecond counted once.",
			nil, []float64{0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}, "phase", "request_kind"),
		demand: vec("demand_seats", "Seats that the level's requests wanted, in relation to those that it had, each nanosecond counted once.",
			nil, []float64{0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6}, "priority_level"),
		running: map[bool]*ratio{}, waiting: map[bool]*ratio{},
	}
	for writes, kind := range map[bool]string{false: "readOnly", true: "mutating"} {
		r.running[writes], r.waiting[writes] = newRatio(r.kinds, phaseRunning, kind), newRatio(r.kinds, phaseWaiting, kind)
	}
	return r
}

// relate says how many requests may run, and wait, in all.
func (r *ratios) relate(running, waiting float64) {
	for _, writes := range []bool{false, true} {
		r.running[writes].relate(running)
		r.waiting[writes].relate(waiting)
	}
}

// gauges are what is told of a level whenever something changes in it.
type gauges struct {
	r, dispatched, due            prometheus.Gauge
	least, most                   prometheus.Gauge
	leastLess, mostLess           prometheus.Gauge
	seats, running, waiting, want *ratio
}

func (m *Metrics) gauges(level string) *gauges {
	return &gauges{
		r: m.progress.WithLabelValues(level), dispatched: m.dispatch.WithLabelValues(level), due: m.latest.WithLabelValues(level),
		least: m.next.WithLabelValues(level, "min"), most: m.next.WithLabelValues(level, "max"),
		leastLess: m.discounted.WithLabelValues(level, "min"), mostLess: m.discounted.WithLabelValues(level, "max"),
		seats: newRatio(m.ratios.seats, level), want: newRatio(m.ratios.demand, level),
		running: newRatio(m.ratios.requests, phaseRunning, level), waiting: newRatio(m.ratios.requests, phaseWaiting, level),
	}
}
