package seal

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keysTold bounds the keys of plugins, by their hashes, of which metrics are told: those that were used last.
const keysTold = 100

// keyMetrics tell which keys of plugins are used, and which a plugin says that it has.
type keyMetrics struct {
	uses       *prometheus.CounterVec
	used, told *prometheus.GaugeVec
	invalid    *prometheus.CounterVec

	mu   *sync.Mutex
	last map[keyLabels]time.Time
}

// keyLabels are of one key; without a way, of what the plugin's status says.
type keyLabels struct{ way, provider, hash string }

func newKeyMetrics() keyMetrics {
	const prefix = "apiserver_envelope_encryption_"
	return keyMetrics{
		uses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "key_id_hash_total", Help: "Values that were encrypted or decrypted with a seed under a plugin's key.",
		}, []string{"transformation_type", "provider_name", "key_id_hash"}),
		used: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "key_id_hash_last_timestamp_seconds", Help: "When a plugin's key was last of use.",
		}, []string{"transformation_type", "provider_name", "key_id_hash"}),
		told: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "key_id_hash_status_last_timestamp_seconds", Help: "When a plugin last said that this is its key.",
		}, []string{"provider_name", "key_id_hash"}),
		invalid: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "invalid_key_id_from_status_total", Help: "Times that a plugin named a key by what can be no name: empty or too_long.",
		}, []string{"provider_name", "error"}),
		mu: &sync.Mutex{}, last: map[keyLabels]time.Time{},
	}
}

// keyUsed counts a value that was encrypted or decrypted under a key.
func (m *Metrics) keyUsed(way, provider, keyID string, now time.Time) {
	if m == nil {
		return
	}
	l := keyLabels{way, provider, hashOf(keyID)}
	m.keys.remember(l, now)
	m.keys.uses.WithLabelValues(l.way, l.provider, l.hash).Inc()
	m.keys.used.WithLabelValues(l.way, l.provider, l.hash).Set(seconds(now))
}

// keyTold notes what a plugin's status says.
func (m *Metrics) keyTold(provider, keyID string, now time.Time) {
	if m == nil {
		return
	}
	l := keyLabels{"", provider, hashOf(keyID)}
	m.keys.remember(l, now)
	m.keys.told.WithLabelValues(l.provider, l.hash).Set(seconds(now))
}

func (m *Metrics) keyInvalid(provider, keyID string) {
	if m == nil {
		return
	}
	wrong := "too_long"
	if keyID == "" {
		wrong = "empty"
	}
	m.keys.invalid.WithLabelValues(provider, wrong).Inc()
}

// remember makes room for a key's metrics: that of which there was no word for the longest time is forgotten.
func (k *keyMetrics) remember(l keyLabels, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[l] = now
	if len(k.last) <= keysTold {
		return
	}
	var oldest keyLabels
	for other, at := range k.last {
		if other != l && (oldest == keyLabels{} || at.Before(k.last[oldest])) {
			oldest = other
		}
	}
	delete(k.last, oldest)
	k.uses.DeleteLabelValues(oldest.way, oldest.provider, oldest.hash)
	k.used.DeleteLabelValues(oldest.way, oldest.provider, oldest.hash)
	k.told.DeleteLabelValues(oldest.provider, oldest.hash)
}

func seconds(at time.Time) float64 { return float64(at.UnixNano()) / 1e9 }
