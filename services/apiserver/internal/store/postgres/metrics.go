package postgres

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/apiserver/internal/store"
)

// metrics of one store; README of the apiserver lists them.
type metrics struct {
	queue          prometheus.Gauge
	batch          prometheus.Histogram
	commit         prometheus.Histogram
	revisions      prometheus.Counter
	tailLag        prometheus.Histogram
	tailed         prometheus.Counter
	compacted      prometheus.Gauge
	compaction     prometheus.Histogram
	partitions     prometheus.Gauge
	folded         prometheus.Counter
	maintainFailed prometheus.Counter
	refused        *prometheus.CounterVec
	used           prometheus.Gauge
	overQuota      prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	name := func(s string) string { return "howdah_store_" + s }
	latency := prometheus.ExponentialBuckets(0.0001, 2, 17) // 0.1 ms to 6.5 s
	m := &metrics{
		queue: prometheus.NewGauge(prometheus.GaugeOpts{Name: name("queue_length"), Help: "Calls of Write that wait for their commit."}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("batch_writes"), Help: "Writes in a committed batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("commit_seconds"), Help: "Round trip of a batch's commit.",
			Buckets: latency}),
		revisions: prometheus.NewCounter(prometheus.CounterOpts{Name: name("revisions_total"), Help: "Writes that this process committed with success."}),
		tailLag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("tail_lag_seconds"),
			Help: "From a commit (database clock) to the delivery of its newest event (process clock).", Buckets: latency}),
		tailed:         prometheus.NewCounter(prometheus.CounterOpts{Name: name("tailed_events_total"), Help: "Events delivered to tails."}),
		compacted:      prometheus.NewGauge(prometheus.GaugeOpts{Name: name("compacted_revision"), Help: "States are kept from this revision on."}),
		compaction:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: name("compaction_seconds"), Help: "Time to compact one partition.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14)}),
		partitions:     prometheus.NewGauge(prometheus.GaugeOpts{Name: name("partitions"), Help: "Partitions of the change log."}),
		folded:         prometheus.NewCounter(prometheus.CounterOpts{Name: name("folded_values_total"), Help: "Values moved out of partitions before they were dropped."}),
		maintainFailed: prometheus.NewCounter(prometheus.CounterOpts{Name: name("maintenance_failures_total"), Help: "Rounds of maintenance that failed."}),
		refused:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("commits_refused_total"), Help: "Commits that the database refused, by SQLSTATE: 53100 is a full disk."}, []string{"code"}),
		used:           prometheus.NewGauge(prometheus.GaugeOpts{Name: name("quota_used_bytes"), Help: "Bytes of the quota that are used; 0 where there is no quota."}),
		overQuota:      prometheus.NewGauge(prometheus.GaugeOpts{Name: name("over_quota"), Help: "1 while nothing can be created, because the quota is used up."}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.queue, m.batch, m.commit, m.revisions, m.tailLag, m.tailed, m.compacted, m.compaction, m.partitions, m.folded, m.maintainFailed, m.refused, m.used, m.overQuota} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) committed(begin time.Time, writes, successes int) {
	m.commit.Observe(time.Since(begin).Seconds())
	m.batch.Observe(float64(writes))
	m.revisions.Add(float64(successes))
}

func (m *metrics) delivered(newest store.Event, events int) {
	m.tailLag.Observe(max(0, time.Since(newest.Time).Seconds()))
	m.tailed.Add(float64(events))
}
