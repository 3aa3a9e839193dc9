package volume

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/pod"
)

// metrics of volumes, under a kubelet's names.
type metrics struct {
	operations                   *prometheus.HistogramVec
	orphansCleaned, orphansStuck prometheus.Gauge
}

func newMetrics(m *Manager, registerer prometheus.Registerer) *metrics {
	out := &metrics{
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "How long it took to give volumes to pods and to take them away, by kind of volume and outcome.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, []string{"volume_plugin", "operation_name", "status", "migrated"}),
		orphansCleaned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_orphan_pod_cleaned_volumes", Help: "Pods that nobody knows any more whose folders were found when it was last looked for them.",
		}),
		orphansStuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_orphan_pod_cleaned_volumes_errors", Help: "Pods that nobody knows any more whose folders could not be removed when it was last tried.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(out.operations, out.orphansCleaned, out.orphansStuck, collector{m})
	}
	return out
}

// operated tells of something that was done with a volume.
func (m *metrics) operated(plugin, operation string, took time.Duration, err error) {
	outcome := "success"
	if err != nil {
		outcome = "fail-unknown"
	}
	m.operations.WithLabelValues(plugin, operation, outcome, "false").Observe(took.Seconds())
}

// Operated tells of something that a CSI driver has done with a volume.
func (m *Manager) Operated(plugin, operation string, took time.Duration, err error) {
	m.metrics.operated(plugin, operation, took, err)
}

const pluginPrefix = "kubernetes.io/"

// CSIPlugin is Kubernetes' name for what makes the volumes of a driver.
func CSIPlugin(driver string) string { return pluginPrefix + "csi:" + driver }

// plugin is Kubernetes' name for what makes a volume, "" where that is not known: for a claim that stands for nothing yet.
func (m *Manager) plugin(uid types.UID, v *corev1.Volume) string {
	if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
		m.mu.Lock()
		b := m.bound[boundKey{uid, v.Name}]
		m.mu.Unlock()
		if b.volume == nil {
			return ""
		}
		switch s := b.volume.Spec.PersistentVolumeSource; {
		case s.CSI != nil:
			return CSIPlugin(s.CSI.Driver)
		case s.Local != nil:
			return pluginPrefix + "local-volume"
		case s.HostPath != nil:
			return pluginPrefix + "host-path"
		case s.NFS != nil:
			return pluginPrefix + "nfs"
		case s.ISCSI != nil:
			return pluginPrefix + "iscsi"
		}
		return ""
	}
	switch {
	case v.CSI != nil:
		return CSIPlugin(v.CSI.Driver)
	case v.HostPath != nil:
		return pluginPrefix + "host-path"
	case v.NFS != nil:
		return pluginPrefix + "nfs"
	case v.ISCSI != nil:
		return pluginPrefix + "iscsi"
	}
	for _, f := range folders {
		if f.is(v) {
			return pluginPrefix + f.kind
		}
	}
	return ""
}

// pluginOf is the name by a folder of a pod's volumes, "" for folders of others.
func pluginOf(dir string) string {
	kind, ok := strings.CutPrefix(filepath.Base(filepath.Dir(dir)), "kubernetes.io~")
	if !ok {
		return ""
	}
	return pluginPrefix + kind
}

// note keeps that a pod has a volume, and reports whether it was not known to.
func (m *Manager) note(uid types.UID, name, plugin string) (fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made[uid] == nil {
		m.made[uid] = map[string]string{}
	}
	_, known := m.made[uid][name]
	m.made[uid][name] = plugin
	return !known
}

func (m *Manager) has(uid types.UID, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.made[uid][name]
	return ok
}

// released forgets the volumes that a pod has given back.
func (m *Manager) released(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, plugin := range m.made[uid] {
		if plugin == pluginPrefix+"iscsi" || strings.HasPrefix(plugin, pluginPrefix+"csi:") {
			delete(m.made[uid], name)
		}
	}
}

// collector tells which volumes pods have, and which they are to have.
type collector struct{ m *Manager }

var totalVolumes = prometheus.NewDesc("volume_manager_total_volumes", "Volumes of pods by kind: those that pods are to have (desired) and those that they have (actual).",
	[]string{"plugin_name", "state"}, nil)

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) { to <- totalVolumes }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	desired, actual := map[string]int{}, map[string]int{}
	if c.m.cfg.Pods != nil {
		for _, p := range c.m.cfg.Pods() {
			if pod.Finished(p) {
				continue
			}
			for _, v := range Used(p) {
				if plugin := c.m.plugin(p.UID, v); plugin != "" {
					desired[plugin]++
				}
			}
		}
	}
	c.m.mu.Lock()
	for _, volumes := range c.m.made {
		for _, plugin := range volumes {
			actual[plugin]++
		}
	}
	c.m.mu.Unlock()
	for state, count := range map[string]map[string]int{"desired_state_of_world": desired, "actual_state_of_world": actual} {
		for plugin, n := range count {
			to <- prometheus.MustNewConstMetric(totalVolumes, prometheus.GaugeValue, float64(n), plugin, state)
		}
	}
}
