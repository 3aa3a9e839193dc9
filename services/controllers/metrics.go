package controllers

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/controllers/internal/attachdetach"
	"howdah.dev/services/controllers/internal/cloudnode"
	"howdah.dev/services/controllers/internal/cronjob"
	"howdah.dev/services/controllers/internal/devicetainteviction"
	"howdah.dev/services/controllers/internal/endpointslice"
	"howdah.dev/services/controllers/internal/endpointslicemirroring"
	"howdah.dev/services/controllers/internal/ephemeralvolume"
	"howdah.dev/services/controllers/internal/garbage"
	"howdah.dev/services/controllers/internal/job"
	"howdah.dev/services/controllers/internal/nodeipam"
	"howdah.dev/services/controllers/internal/nodelifecycle"
	"howdah.dev/services/controllers/internal/persistentvolume"
	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/controllers/internal/podautoscaler"
	"howdah.dev/services/controllers/internal/podcontrol"
	"howdah.dev/services/controllers/internal/podgc"
	"howdah.dev/services/controllers/internal/replicaset"
	"howdah.dev/services/controllers/internal/resourceclaim"
	"howdah.dev/services/controllers/internal/rootca"
	"howdah.dev/services/controllers/internal/servicelb"
	"howdah.dev/services/controllers/internal/statefulset"
	"howdah.dev/services/controllers/internal/tainteviction"
	"howdah.dev/services/controllers/internal/ttlafterfinished"
)

// measures are the metrics of single controllers. They are registered once; a controller of the next life goes on with them.
type measures struct {
	replicas  *replicaset.Metrics
	jobs      *job.Metrics
	late      prometheus.Observer // how late expired Jobs are deleted
	skew      prometheus.Observer // how late CronJobs' jobs are
	sets      *statefulset.Metrics
	scaling   *podautoscaler.Metrics
	claims    *resourceclaim.Metrics
	devices   *pod.Evictions
	slices    *endpointslice.Metrics
	mirrors   *endpointslicemirroring.Metrics
	nodes     *nodelifecycle.Metrics
	ranges    *nodeipam.Metrics
	taints    *pod.Evictions
	volumes   *persistentvolume.Metrics
	attached  *attachdetach.Metrics
	ephemeral *ephemeralvolume.Metrics
	balancers *servicelb.Metrics
	machines  *cloudnode.Metrics
	rootCA    *rootca.Metrics
	trust     *rootca.Metrics
	garbage   *garbage.Metrics
	leftovers *podgc.Metrics
	daemons   *podcontrol.Skips
}

func newMeasures(r prometheus.Registerer) *measures {
	return &measures{
		replicas: replicaset.NewMetrics(r), claims: resourceclaim.NewMetrics(r),
		jobs: job.NewMetrics(r), late: ttlafterfinished.NewLateness(r), skew: cronjob.NewSkew(r), sets: statefulset.NewMetrics(r),
		scaling: podautoscaler.NewMetrics(r), devices: devicetainteviction.NewMetrics(r),
		slices: endpointslice.NewMetrics(r), mirrors: endpointslicemirroring.NewMetrics(r),
		nodes: nodelifecycle.NewMetrics(r), ranges: nodeipam.NewMetrics(r), taints: tainteviction.NewMetrics(r),
		volumes: persistentvolume.NewMetrics(r), attached: attachdetach.NewMetrics(r), ephemeral: ephemeralvolume.NewMetrics(r),
		balancers: servicelb.NewMetrics(r), machines: cloudnode.NewMetrics(r), rootCA: rootca.NewMetrics(r), trust: rootca.NewBundleMetrics(r), garbage: garbage.NewMetrics(r), leftovers: podgc.NewMetrics(r),
		daemons: podcontrol.NewSkips(r, "daemonset_controller"),
	}
}

// collector shows the queues and the leadership at the time of a scrape.
type collector struct{ s *Server }

// descriptions of what a collector shows.
func descriptions() (depth, unfinished, failures, leader, running *prometheus.Desc) {
	label := []string{"name"}
	return prometheus.NewDesc("workqueue_depth", "Keys that wait to be reconciled.", label, nil),
		prometheus.NewDesc("workqueue_unfinished_keys", "Keys that are being reconciled.", label, nil),
		prometheus.NewDesc("workqueue_retries_total", "Reconciles that failed and are tried again.", label, nil),
		prometheus.NewDesc("leader_election_master_status", "1 while this process leads.", label, nil),
		prometheus.NewDesc("running_managed_controllers", "1 where a controller runs, 0 where it stands by.", []string{"name", "manager"}, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	depth, unfinished, failures, leader, running := descriptions()
	for _, d := range []*prometheus.Desc{depth, unfinished, failures, leader, running} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	depth, unfinished, failures, leader, running := descriptions()
	l := c.s.life.Load()
	if l == nil {
		return
	}
	leads := 0.0
	if l.leading.Load() {
		leads = 1
	}
	ch <- prometheus.MustNewConstMetric(leader, prometheus.GaugeValue, leads, c.s.cfg.Role)
	for _, name := range l.names {
		ch <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, leads, name, c.s.cfg.Role)
	}
	for _, q := range l.queues {
		ch <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(q.Waiting()), q.Name())
		ch <- prometheus.MustNewConstMetric(unfinished, prometheus.GaugeValue, float64(q.Running()), q.Name())
		ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(q.Failures()), q.Name())
	}
}
