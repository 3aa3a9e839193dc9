package controllers

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/cronjob"
	"howdah.dev/services/controllers/internal/devicetainteviction"
	"howdah.dev/services/controllers/internal/ephemeralvolume"
	"howdah.dev/services/controllers/internal/job"
	"howdah.dev/services/controllers/internal/nodelifecycle"
	"howdah.dev/services/controllers/internal/persistentvolume"
	"howdah.dev/services/controllers/internal/podautoscaler"
	"howdah.dev/services/controllers/internal/statefulset"
	"howdah.dev/services/controllers/internal/ttlafterfinished"
)

// measures are the metrics of single controllers. They are registered once; a controller of the next life goes on with them.
type measures struct {
	skew      prometheus.Observer // how late CronJobs' jobs are
	jobs      *job.Metrics
	sets      *statefulset.Metrics
	devices   *devicetainteviction.Metrics
	volumes   *persistentvolume.Metrics
	ephemeral *ephemeralvolume.Metrics
	nodes     *nodelifecycle.Metrics
	late      prometheus.Observer // how late expired Jobs are deleted
	scaling   *podautoscaler.Metrics
}

func newMeasures(r prometheus.Registerer) *measures {
	return &measures{
		skew: cronjob.NewSkew(r), jobs: job.NewMetrics(r), sets: statefulset.NewMetrics(r), devices: devicetainteviction.NewMetrics(r),
		volumes: persistentvolume.NewMetrics(r), ephemeral: ephemeralvolume.NewMetrics(r), late: ttlafterfinished.NewLateness(r),
		nodes: nodelifecycle.NewMetrics(r), scaling: podautoscaler.NewMetrics(r),
	}
}

// collector shows the queues and the leadership at the time of a scrape.
type collector struct{ s *Server }

// descriptions of what a collector shows.
func descriptions() (depth, unfinished, failures, leader *prometheus.Desc) {
	label := []string{"name"}
	return prometheus.NewDesc("workqueue_depth", "Keys that wait to be reconciled.", label, nil),
		prometheus.NewDesc("workqueue_unfinished_keys", "Keys that are being reconciled.", label, nil),
		prometheus.NewDesc("workqueue_retries_total", "Reconciles that failed and are tried again.", label, nil),
		prometheus.NewDesc("leader_election_master_status", "1 while this process leads.", label, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	depth, unfinished, failures, leader := descriptions()
	for _, d := range []*prometheus.Desc{depth, unfinished, failures, leader} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	depth, unfinished, failures, leader := descriptions()
	l := c.s.life.Load()
	if l == nil {
		return
	}
	leads := 0.0
	if l.leading.Load() {
		leads = 1
	}
	ch <- prometheus.MustNewConstMetric(leader, prometheus.GaugeValue, leads, c.s.cfg.Role)
	for _, q := range l.queues {
		ch <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(q.Waiting()), q.Name())
		ch <- prometheus.MustNewConstMetric(unfinished, prometheus.GaugeValue, float64(q.Running()), q.Name())
		ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(q.Failures()), q.Name())
	}
}
