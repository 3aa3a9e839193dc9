package podcert

import (
	"github.com/prometheus/client_golang/prometheus"
)

var states = prometheus.NewDesc("kubelet_podcertificate_states",
	"Sources of projected volumes that are certificates of pods, by signer and state.", []string{"signer_name", "state"}, nil)

// collector counts the certificates of the node's pods.
type collector struct{ k *Keeper }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) { to <- states }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for at, n := range c.k.count() {
		to <- prometheus.MustNewConstMetric(states, prometheus.GaugeValue, float64(n), at[0], at[1])
	}
}

// count returns how many sources there are by signer and state, of those that were asked for.
func (k *Keeper) count() map[[2]string]int {
	pods, now, n := k.cfg.Pods(), k.cfg.Clock.Now(), map[[2]string]int{}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.records) == 0 {
		return n
	}
	for _, pod := range pods {
		for _, v := range pod.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for i, s := range v.Projected.Sources {
				if r := k.records[source{pod.UID, v.Name, i}]; r != nil && s.PodCertificate != nil {
					n[[2]string{s.PodCertificate.SignerName, r.label(now)}]++
				}
			}
		}
	}
	return n
}
