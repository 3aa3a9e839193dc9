package persistentvolume

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
)

// errBehind says that the cache has not heard of the newest version yet.
var errBehind = errors.New("the cache is behind")

// Metrics are Kubernetes' own of volumes and claims, counted at a scrape from the caches.
type Metrics struct {
	caches            atomic.Pointer[caches] // nil while this process does not lead
	retroactive       prometheus.Counter
	retroactiveErrors prometheus.Counter
	operations        *operations
}

type caches struct {
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	volumes *object.Informer[*corev1.PersistentVolume]
}

var (
	totalVolumes   = prometheus.NewDesc("pv_collector_total_pv_count", "Persistent volumes.", []string{"plugin_name", "volume_mode"}, nil)
	boundVolumes   = prometheus.NewDesc("pv_collector_bound_pv_count", "Persistent volumes that are bound.", []string{"storage_class"}, nil)
	unboundVolumes = prometheus.NewDesc("pv_collector_unbound_pv_count", "Persistent volumes that are not bound.", []string{"storage_class"}, nil)
	boundClaims    = prometheus.NewDesc("pv_collector_bound_pvc_count", "Claims that are bound.", []string{"namespace", "storage_class", "volume_attributes_class"}, nil)
	unboundClaims  = prometheus.NewDesc("pv_collector_unbound_pvc_count", "Claims that are not bound.", []string{"namespace", "storage_class", "volume_attributes_class"}, nil)
)

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		retroactive:       prometheus.NewCounter(prometheus.CounterOpts{Name: "retroactive_storageclass_total", Help: "Claims that were given a default class later."}),
		operations:        newOperations(registerer),
		retroactiveErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "retroactive_storageclass_errors_total", Help: "Failures to give a claim a default class later."}),
	}
	registerer.MustRegister(m, m.retroactive, m.retroactiveErrors)
	return m
}

// follow counts in these caches from now on, in none where they are nil. What was begun before is not measured.
func (m *Metrics) follow(in *caches) {
	if m != nil {
		m.operations.forget()
		m.caches.Store(in)
	}
}

// assigned counts a default class that was given to a claim, or was not.
func (m *Metrics) assigned(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.retroactiveErrors.Inc()
	default:
		m.retroactive.Inc()
	}
}

// provisions notes that a provisioner is asked for a claim's volume.
func (m *Metrics) provisions(claim, provisioner string, now time.Time) {
	if m != nil {
		m.operations.begins(operation{provisioning, claim}, provisioner, now)
	}
}

// provisioned measures that a claim has its volume; with an error, that something on the way has failed.
func (m *Metrics) provisioned(claim string, err error, now time.Time) {
	if m != nil {
		m.operations.tried(operation{provisioning, claim}, err, now)
	}
}

// claimGone drops a claim that nobody makes a volume for any more.
func (m *Metrics) claimGone(claim string) {
	if m != nil {
		m.operations.dropped(operation{provisioning, claim})
	}
}

// volumeGone drops a volume that was gone before its deletion was noted.
func (m *Metrics) volumeGone(volume string) {
	if m != nil {
		m.operations.dropped(operation{deleting, volume})
	}
}

// deletes notes that a volume is to be deleted.
func (m *Metrics) deletes(volume, provisioner string, now time.Time) {
	if m != nil {
		m.operations.begins(operation{deleting, volume}, provisioner, now)
	}
}

// deleted measures that a volume has gone which was to; with an error, that it cannot.
func (m *Metrics) deleted(volume string, err error, now time.Time) {
	if m != nil {
		m.operations.tried(operation{deleting, volume}, err, now)
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{totalVolumes, boundVolumes, unboundVolumes, boundClaims, unboundClaims} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	c := m.caches.Load()
	if c == nil {
		return
	}
	gauges := map[*prometheus.Desc]map[[3]string]int{}
	count := func(desc *prometheus.Desc, labels ...string) {
		if gauges[desc] == nil {
			gauges[desc] = map[[3]string]int{}
		}
		var key [3]string
		copy(key[:], labels)
		gauges[desc][key]++
	}
	for _, v := range c.volumes.List("") {
		mode := corev1.PersistentVolumeFilesystem
		if v.Spec.VolumeMode != nil {
			mode = *v.Spec.VolumeMode
		}
		count(totalVolumes, plugin(v), string(mode))
		if v.Status.Phase == corev1.VolumeBound {
			count(boundVolumes, v.Spec.StorageClassName)
		} else {
			count(unboundVolumes, v.Spec.StorageClassName)
		}
	}
	for _, claim := range c.claims.List("") {
		desc := unboundClaims
		if claim.Status.Phase == corev1.ClaimBound {
			desc = boundClaims
		}
		count(desc, claim.Namespace, storage.GetPersistentVolumeClaimClass(claim), deref(claim.Spec.VolumeAttributesClassName))
	}
	width := map[*prometheus.Desc]int{totalVolumes: 2, boundVolumes: 1, unboundVolumes: 1, boundClaims: 3, unboundClaims: 3}
	for desc, values := range gauges {
		for labels, n := range values {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels[:width[desc]]...)
		}
	}
}

// plugin is Kubernetes' name of what mounts a volume.
func plugin(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return "kubernetes.io/csi:" + s.CSI.Driver
	case s.Local != nil:
		return "kubernetes.io/local-volume"
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	case s.ISCSI != nil:
		return "kubernetes.io/iscsi"
	case s.FC != nil:
		return "kubernetes.io/fc"
	}
	return "N/A"
}
