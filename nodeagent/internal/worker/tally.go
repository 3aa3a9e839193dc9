package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/pod"
)

// group is what kubelet_working_pods tells pods apart by.
type group struct{ lifecycle, config, static string }

// tally is how many pods there are of each kind, under a kubelet's names.
type tally struct {
	working   map[group]int
	active    map[string]int // by whether they are static
	ephemeral int            // containers that pods were given for debugging
}

// count counts the workers' pods.
func (m *Manager) count() tally {
	t := tally{working: map[group]int{}, active: map[string]int{"": 0, "true": 0}}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} { // a kind of which there is none is 0
		for _, static := range []string{"", "true"} {
			t.working[group{lifecycle, "desired", static}] = 0
			t.working[group{lifecycle, "orphan", static}] = 0
		}
		t.working[group{lifecycle, "runtime_only", "unknown"}] = 0
	}
	if m == nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workers {
		w.mu.Lock()
		p, gone, ends := w.pod, w.gone, ending(w.pod, w.gone) || w.evicted != nil
		w.mu.Unlock()
		g := group{lifecycle: "sync", config: "desired"}
		if pod.Static(p) {
			g.static = "true"
		}
		select {
		case <-w.stopped:
			g.lifecycle = "terminated"
		default:
			if ends {
				g.lifecycle = "terminating"
			}
		}
		switch {
		case w.adopted:
			g.config, g.static = "runtime_only", "unknown"
		case gone:
			g.config = "orphan"
		default:
			t.ephemeral += len(p.Spec.EphemeralContainers)
			if g.lifecycle == "terminating" || g.lifecycle == "sync" && !pod.Finished(p) {
				t.active[g.static]++
			}
		}
		t.working[g]++
	}
	return t
}

// podsByState tells of the pods that have a worker.
type podsByState struct{ m *Metrics }

var (
	workingPods = prometheus.NewDesc("kubelet_working_pods", "Pods that have a worker, by how far their life is, by who wants them, and by whether they are static.",
		[]string{"lifecycle", "config", "static"}, nil)
	activePods          = prometheus.NewDesc("kubelet_active_pods", "Pods that are to run on the node and of which something may run.", []string{"static"}, nil)
	ephemeralContainers = prometheus.NewDesc("kubelet_managed_ephemeral_containers", "Ephemeral containers of the pods that are to run on the node.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c podsByState) Describe(out chan<- *prometheus.Desc) {
	out <- workingPods
	out <- activePods
	out <- ephemeralContainers
}

// Collect implements prometheus.Collector.
func (c podsByState) Collect(out chan<- prometheus.Metric) {
	t := c.m.manager.Load().count()
	for g, n := range t.working {
		out <- prometheus.MustNewConstMetric(workingPods, prometheus.GaugeValue, float64(n), g.lifecycle, g.config, g.static)
	}
	for static, n := range t.active {
		out <- prometheus.MustNewConstMetric(activePods, prometheus.GaugeValue, float64(n), static)
	}
	out <- prometheus.MustNewConstMetric(ephemeralContainers, prometheus.GaugeValue, float64(t.ephemeral))
}
