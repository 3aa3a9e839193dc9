package attachdetach

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/kit/obs"
)

// Metrics are Kubernetes' metrics of volumes that are attached. A nil one measures nothing.
type Metrics struct {
	forced  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	world   atomic.Pointer[attacher] // nil while this process does not lead

	mu    sync.Mutex
	begun map[operation]time.Time
}

// operation is one that a driver carries out for an attachment.
type operation struct{ attachment, name string }

const (
	attaching = "volume_attach"
	detaching = "volume_detach"
)

var (
	inUse = prometheus.NewDesc("storage_count_attachable_volumes_in_use",
		"Volumes that the pods of a node have, of the kinds that are attached.", []string{"node", "volume_plugin"}, nil)
	total = prometheus.NewDesc("attachdetach_controller_total_volumes",
		"Volumes that are wanted on nodes (desired_state_of_world), and those that are attached (actual_state_of_world).", []string{"plugin_name", "state"}, nil)
)

// NewMetrics registers the metrics. How long operations took, agents may tell, too.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		forced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attach_detach_controller_attachdetach_controller_forced_detaches",
			Help: "Volumes that were detached though a node says that they are in use: it was silent for too long (timeout), or said to be lost (out-of-service).",
		}, []string{"reason"}),
		seconds: obs.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "How long operations with volumes took.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, []string{"volume_plugin", "operation_name", "status", "migrated"})),
		begun: map[operation]time.Time{},
	}
	registerer.MustRegister(m, m.forced)
	return m
}

// follow counts what an attacher knows from now on, nothing where it is nil. What was begun before is not measured.
func (m *Metrics) follow(c *attacher) {
	if m == nil {
		return
	}
	m.world.Store(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.begun)
}

// begins notes that an operation is asked for, unless it was before. It reports whether it was not.
func (m *Metrics) begins(attachment, name string, now time.Time) (first bool) {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.begun[operation{attachment, name}]; again {
		return false
	}
	m.begun[operation{attachment, name}] = now
	return true
}

// dropped says that an operation was not asked for after all.
func (m *Metrics) dropped(attachment, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun, operation{attachment, name})
}

// saw measures what a driver has done, or could not do, of what was begun here. It tries again what it could not.
func (m *Metrics) saw(old, new *storagev1.VolumeAttachment, now time.Time) {
	if m == nil {
		return
	}
	if new == nil {
		m.dropped(old.Name, attaching)
		m.ended(old, detaching, true, now)
		return
	}
	if old == nil {
		old = &storagev1.VolumeAttachment{}
	}
	switch {
	case new.Status.Attached:
		m.ended(new, attaching, true, now)
	case another(old.Status.AttachError, new.Status.AttachError):
		m.ended(new, attaching, false, now)
	}
	if another(old.Status.DetachError, new.Status.DetachError) {
		m.ended(new, detaching, false, now)
	}
}

// another reports whether a driver tells of an error that it had not told of.
func another(old, new *storagev1.VolumeError) bool {
	return new != nil && !apiequality.Semantic.DeepEqual(old, new)
}

// ended measures an operation, which begins anew where it has failed.
func (m *Metrics) ended(a *storagev1.VolumeAttachment, name string, well bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := operation{a.Name, name}
	begun, ours := m.begun[key]
	if !ours {
		return
	}
	status := "success"
	if delete(m.begun, key); !well {
		status, m.begun[key] = "fail-unknown", now
	}
	m.seconds.WithLabelValues(ofDriver(a.Spec.Attacher), name, status, "false").Observe(now.Sub(begun).Seconds())
}

// detachedByForce counts a volume that was not waited for any longer.
func (m *Metrics) detachedByForce(node *corev1.Node) {
	if m == nil {
		return
	}
	reason := "timeout"
	if lost(node) {
		reason = "out-of-service"
	}
	m.forced.WithLabelValues(reason).Inc()
}

// Describe implements prometheus.Collector.
func (*Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- inUse
	ch <- total
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	c := m.world.Load()
	if c == nil {
		return
	}
	type pair [2]string
	used, totals, wanted := map[pair]int{}, map[pair]int{}, map[pair]bool{}
	for _, p := range c.pods.List("") {
		if !Wants(p) || !attachable(p) {
			continue
		}
		for _, v := range c.volumesOf(p) {
			plugin, node := v.plugin(), p.Spec.NodeName
			used[pair{node, plugin}]++
			if at := (pair{node, v.key(node)}); !wanted[at] {
				wanted[at] = true
				totals[pair{plugin, "desired_state_of_world"}]++
			}
		}
	}
	for _, a := range c.attachments.List("") {
		if a.Status.Attached && ours(a) {
			totals[pair{ofDriver(a.Spec.Attacher), "actual_state_of_world"}]++
		}
	}
	for _, n := range c.nodes.List("") {
		for _, name := range notes(n) {
			totals[pair{Volume{Name: name, Noted: true}.plugin(), "actual_state_of_world"}]++
		}
	}
	for labels, n := range used {
		ch <- prometheus.MustNewConstMetric(inUse, prometheus.GaugeValue, float64(n), labels[:]...)
	}
	for labels, n := range totals {
		ch <- prometheus.MustNewConstMetric(total, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

// plugin is what Kubernetes calls the kind of a volume.
func (v Volume) plugin() string {
	if v.Driver != "" {
		return ofDriver(v.Driver)
	}
	for _, k := range kinds() {
		if strings.HasPrefix(string(v.Name), k.plugin+"/") {
			return k.plugin
		}
	}
	return "N/A"
}

func ofDriver(driver string) string { return "kubernetes.io/csi:" + driver }
