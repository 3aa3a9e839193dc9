package flow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/prometheusextension"
)

// Metrics has Kubernetes' names.
type Metrics struct {
	rejected, dispatched                           *prometheus.CounterVec
	queued, queuedSeats, executing, executingSeats *prometheus.GaugeVec
	wait, execution, width                         *prometheus.HistogramVec
	length                                         *prometheus.HistogramVec
	nominal, least, most, current, demand, target  *prometheus.GaugeVec
	average, deviation, highest                    *prometheus.GaugeVec
	fairness                                       prometheus.Gauge
	// progress and the like tell of R, which package fair explains.
	progress, dispatch, latest, next, discounted *prometheus.GaugeVec
	watches                                      *prometheus.HistogramVec
	tight                                        *prometheus.CounterVec
	ratios                                       *ratios
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	both := []string{"priority_level", "flow_schema"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_flowcontrol_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_flowcontrol_" + name, Help: help}, labels)
	}
	seconds := []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_flowcontrol_" + name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		rejected:       counter("rejected_requests_total", "Requests that were refused with 429.", "priority_level", "flow_schema", "reason"),
		dispatched:     counter("dispatched_requests_total", "Requests that were let run.", both...),
		queued:         gauge("current_inqueue_requests", "Requests that wait for a seat.", both...),
		queuedSeats:    gauge("current_inqueue_seats", "Seats that waiting requests want.", both...),
		executing:      gauge("current_executing_requests", "Requests that run.", both...),
		executingSeats: gauge("current_executing_seats", "Seats that running requests hold.", both...),
		wait:           histogram("request_wait_duration_seconds", "Time that requests waited for a seat.", seconds, "priority_level", "flow_schema", "execute"),
		execution:      histogram("request_execution_seconds", "Time that requests held their seats.", seconds, "priority_level", "flow_schema", "type"),
		width:          histogram("work_estimated_seats", "Seats that requests were estimated to need.", []float64{1, 2, 4, 8, 16, 32, 64, 100}, both...),
		length:         histogram("request_queue_length_after_enqueue", "Length of its queue as each request saw it.", []float64{0, 10, 25, 50, 100, 250, 500, 1000}, both...),
		nominal:        gauge("nominal_limit_seats", "Nominal number of seats of the level.", "priority_level"),
		least:          gauge("lower_limit_seats", "Seats that the level never lends.", "priority_level"),
		most:           gauge("upper_limit_seats", "Most seats that the level may have by borrowing.", "priority_level"),
		current:        gauge("current_limit_seats", "Seats that the level has now.", "priority_level"),
		demand:         gauge("demand_seats_smoothed", "Smoothed demand of seats.", "priority_level"),
		average:        gauge("demand_seats_average", "Seats that were wanted since the seats were last divided, on average.", "priority_level"),
		deviation:      gauge("demand_seats_stdev", "Their standard deviation.", "priority_level"),
		highest:        gauge("demand_seats_high_watermark", "Most seats that were wanted at once since the seats were last divided.", "priority_level"),
		target:         gauge("target_seats", "Seats that the level would have if there were enough.", "priority_level"),
		fairness: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "apiserver_flowcontrol_seat_fair_frac", Help: "Share of its demand that a level gets beyond what is its own.",
		}),
	}
	m.progress = gauge("current_r", "R, in seat-seconds, when something last changed.", "priority_level")
	m.dispatch = gauge("dispatch_r", "R when a request was last let run.", "priority_level")
	m.latest = gauge("latest_s", "R at which the queue of the request was due that was last let run.", "priority_level")
	m.next = gauge("next_s_bounds", "Least and most, over the queues in which requests waited, of the R at which they were due.", "priority_level", "bound")
	m.discounted = gauge("next_discounted_s_bounds", "The same, less what their running requests were estimated to take.", "priority_level", "bound")
	m.watches = histogram("watch_count_samples", "Watches that a write had to tell.", []float64{0, 1, 10, 100, 1000, 10000}, both...)
	m.tight = counter("request_dispatch_no_accommodation_total", "Times that the request whose turn it was wanted more seats than were free.", both...)
	m.ratios = newRatios()
	if registerer != nil {
		registerer.MustRegister(m.progress, m.dispatch, m.latest, m.next, m.discounted, m.watches, m.tight, m.ratios.seats, m.ratios.requests, m.ratios.kinds, m.ratios.demand)
		registerer.MustRegister(m.rejected, m.dispatched, m.queued, m.queuedSeats, m.executing, m.executingSeats, m.wait, m.execution, m.width, m.length,
			m.average, m.deviation, m.highest, m.nominal, m.least, m.most, m.current, m.demand, m.target, m.fairness)
	}
	return m
}

// counts are the metrics of one schema in one level, looked up once.
type counts struct {
	metrics                                        *Metrics
	level, schema                                  string
	dispatched                                     prometheus.Counter
	queued, queuedSeats, executing, executingSeats prometheus.Gauge
	wait, refusedWait, execution, begun, width     prometheus.Observer
	length, watches                                prometheus.Observer
	tight                                          prometheus.Counter
}

func (m *Metrics) counts(level, schema string) *counts {
	return &counts{
		metrics: m, level: level, schema: schema,
		dispatched: m.dispatched.WithLabelValues(level, schema),
		queued:     m.queued.WithLabelValues(level, schema), queuedSeats: m.queuedSeats.WithLabelValues(level, schema),
		executing: m.executing.WithLabelValues(level, schema), executingSeats: m.executingSeats.WithLabelValues(level, schema),
		wait: m.wait.WithLabelValues(level, schema, "true"), refusedWait: m.wait.WithLabelValues(level, schema, "false"),
		execution: m.execution.WithLabelValues(level, schema, "regular"), begun: m.execution.WithLabelValues(level, schema, "watch"),
		watches: m.watches.WithLabelValues(level, schema), tight: m.tight.WithLabelValues(level, schema),
		length: m.length.WithLabelValues(level, schema), width: m.width.WithLabelValues(level, schema),
	}
}

// arrived notes a request of which it is not known yet whether it may run.
func (c *counts) arrived(width int, writes bool) {
	c.queued.Inc()
	c.queuedSeats.Add(float64(width))
	c.width.Observe(float64(width))
	c.metrics.ratios.waiting[writes].add(1)
}

func (c *counts) enqueued(length int) {
	if length > 0 {
		c.length.Observe(float64(length))
	}
}

func (c *counts) decided(after time.Duration, waited bool, reason string, width int, writes bool) {
	c.queued.Dec()
	c.queuedSeats.Sub(float64(width))
	c.metrics.ratios.waiting[writes].add(-1)
	if reason != "" {
		c.metrics.rejected.WithLabelValues(c.level, c.schema, reason).Inc()
		// As in Kubernetes, who waited in vain counts with those that were let run.
		if waited {
			c.wait.Observe(after.Seconds())
		} else {
			c.refusedWait.Observe(after.Seconds())
		}
		return
	}
	if !waited {
		after = 0
	}
	c.dispatched.Inc()
	c.wait.Observe(after.Seconds())
	c.executing.Inc()
	c.executingSeats.Add(float64(width))
	c.metrics.ratios.running[writes].add(1)
}

// finished notes the end of a request, or that a watch has begun. Its seats may be taken for longer.
func (c *counts) finished(took time.Duration, watch, writes bool) {
	c.executing.Dec()
	c.metrics.ratios.running[writes].add(-1)
	if watch {
		c.begun.Observe(took.Seconds())
		return
	}
	c.execution.Observe(took.Seconds())
}

// released notes that the seats of a request are free again.
func (c *counts) released(width int) { c.executingSeats.Sub(float64(width)) }

func (m *Metrics) divided(level string, c claim, limit int) {
	m.nominal.WithLabelValues(level).Set(c.nominal)
	m.least.WithLabelValues(level).Set(c.least)
	m.most.WithLabelValues(level).Set(c.most)
	m.current.WithLabelValues(level).Set(float64(limit))
	m.demand.WithLabelValues(level).Set(c.demand)
	m.target.WithLabelValues(level).Set(max(c.least, c.demand))
}

func (m *Metrics) wanted(level string, w wanted) {
	m.average.WithLabelValues(level).Set(w.average)
	m.deviation.WithLabelValues(level).Set(w.deviation)
	m.highest.WithLabelValues(level).Set(w.peak)
}

func (m *Metrics) fraction(f float64) { m.fairness.Set(f) }

// forget drops what is told of a level that is gone.
func (m *Metrics) forget(level string) {
	for _, g := range []*prometheus.GaugeVec{m.average, m.deviation, m.highest, m.nominal, m.least, m.most, m.current, m.demand, m.target, m.progress, m.dispatch, m.latest} {
		g.DeleteLabelValues(level)
	}
	for _, g := range []*prometheus.GaugeVec{m.next, m.discounted} {
		g.DeletePartialMatch(prometheus.Labels{"priority_level": level})
	}
	for _, h := range []*prometheusextension.TimingHistogramVec{m.ratios.seats, m.ratios.requests, m.ratios.demand} {
		h.DeletePartialMatch(prometheus.Labels{"priority_level": level})
	}
}
