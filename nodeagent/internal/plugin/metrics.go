package plugin

import "github.com/prometheus/client_golang/prometheus"

// collector tells which plugins are registered, and which are to be, by their sockets: there are no more of them than are followed.
type collector struct{ w *Watcher }

var totalPlugins = prometheus.NewDesc("plugin_manager_total_plugins", "Plugins by socket: those that are to be registered (desired) and those that are (actual).",
	[]string{"socket_path", "state"}, nil)

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) { to <- totalPlugins }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for path := range c.w.registered {
		to <- prometheus.MustNewConstMetric(totalPlugins, prometheus.GaugeValue, 1, path, "actual_state_of_world")
	}
	for _, path := range c.w.found {
		to <- prometheus.MustNewConstMetric(totalPlugins, prometheus.GaugeValue, 1, path, "desired_state_of_world")
	}
}
