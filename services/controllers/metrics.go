package controllers

import "github.com/prometheus/client_golang/prometheus"

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
