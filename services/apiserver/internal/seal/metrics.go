package seal

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Directions of a transformation, as Kubernetes labels them.
const (
	toStorage   = "to_storage"
	fromStorage = "from_storage"
)

// Metrics counts transformations under Kubernetes' names.
type Metrics struct {
	operations *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	kmsSeconds *prometheus.HistogramVec
	seeds      *prometheus.CounterVec
	cached     *prometheus.GaugeVec
	reloads    *prometheus.CounterVec
	reloaded   *prometheus.GaugeVec
	inForce    *prometheus.GaugeVec
	keys       keyMetrics
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered. Those with identified have labels that say which server they are of.
func NewMetrics(registerer, identified prometheus.Registerer) *Metrics {
	m := &Metrics{
		keys: newKeyMetrics(),
		inForce: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_encryption_config_controller_last_config_info", Help: "The hash of the configuration in force.",
		}, []string{"hash"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_transformation_operations_total", Help: "Values that were encrypted or decrypted.",
		}, []string{"resource", "transformation_type", "transformer_prefix", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_storage_transformation_duration_seconds", Help: "Time to encrypt or decrypt a value.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 25),
		}, []string{"transformation_type", "transformer_prefix"}),
		kmsSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_envelope_encryption_kms_operations_latency_seconds", Help: "Time that calls of a KMS plugin take.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20),
		}, []string{"provider_name", "method_name", "grpc_status_code"}),
		seeds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_envelope_encryption_dek_source_generations_total", Help: "Seeds that were made and given to a KMS plugin to encrypt.",
		}, []string{"provider_name"}),
		cached: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_envelope_encryption_dek_source_cache_size", Help: "Decrypted seeds that are remembered.",
		}, []string{"provider_name"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_encryption_config_controller_automatic_reloads_total", Help: "Times that a changed encryption configuration was read.",
		}, []string{"status"}),
		reloaded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds", Help: "When it was last read.",
		}, []string{"status"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.operations, m.seconds, m.kmsSeconds, m.seeds, m.cached, m.keys.invalid)
		identified.MustRegister(m.reloads, m.reloaded, m.inForce, m.keys.uses, m.keys.used, m.keys.told)
	}
	return m
}

func (m *Metrics) begin(gr schema.GroupResource, direction, prefix string) (end func(error)) {
	if m == nil {
		return func(error) {}
	}
	start := time.Now()
	if prefix == "" {
		prefix = "identity"
	}
	return func(err error) {
		outcome := "OK"
		if err != nil {
			outcome = status.Code(err).String()
		}
		m.operations.WithLabelValues(gr.String(), direction, prefix, outcome).Inc()
		m.seconds.WithLabelValues(direction, prefix).Observe(time.Since(start).Seconds())
	}
}

func (m *Metrics) call(provider, method string, start time.Time, err error) {
	if m != nil {
		m.kmsSeconds.WithLabelValues(provider, method, status.Code(err).String()).Observe(time.Since(start).Seconds())
	}
}

func (m *Metrics) seed(provider string) {
	if m != nil {
		m.seeds.WithLabelValues(provider).Inc()
	}
}

func (m *Metrics) cache(provider string, size int) {
	if m != nil {
		m.cached.WithLabelValues(provider).Set(float64(size))
	}
}

// InForce says which configuration is used, by the hash of its text.
func (m *Metrics) InForce(hash [sha256.Size]byte) {
	if m != nil {
		m.inForce.Reset()
		m.inForce.WithLabelValues(fmt.Sprintf("sha256:%x", hash)).Set(1)
	}
}

// Reloaded counts a new reading of the configuration.
func (m *Metrics) Reloaded(now time.Time, err error) {
	if m == nil {
		return
	}
	outcome := "success"
	if err != nil {
		outcome = "failure"
	}
	m.reloads.WithLabelValues(outcome).Inc()
	m.reloaded.WithLabelValues(outcome).Set(seconds(now))
}
