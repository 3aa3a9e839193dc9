package volumestats

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/usage"
)

// gauges are those of claims, by a kubelet's names.
var gauges = []struct {
	desc *prometheus.Desc
	of   func(v *usage.Volume) *uint64
}{
	{claimGauge("capacity_bytes", "Capacity in bytes of the volume."), func(v *usage.Volume) *uint64 { return v.Capacity }},
	{claimGauge("available_bytes", "Bytes of the volume that are available."), func(v *usage.Volume) *uint64 { return v.Available }},
	{claimGauge("used_bytes", "Bytes of the volume that are used."), func(v *usage.Volume) *uint64 { return v.Used }},
	{claimGauge("inodes", "Inodes of the volume."), func(v *usage.Volume) *uint64 { return v.Inodes }},
	{claimGauge("inodes_free", "Inodes of the volume that are free."), func(v *usage.Volume) *uint64 { return v.InodesFree }},
	{claimGauge("inodes_used", "Inodes of the volume that are used."), func(v *usage.Volume) *uint64 { return v.InodesUsed }},
}

func claimGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kubelet_volume_stats_"+name, help, []string{"namespace", "persistentvolumeclaim"}, nil)
}

// collector tells of the claims' volumes as they were last measured.
type collector struct{ k *Keeper }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, g := range gauges {
		to <- g.desc
	}
}

// Collect implements prometheus.Collector. Pods may share a claim; it is told once.
func (c collector) Collect(to chan<- prometheus.Metric) {
	c.k.mu.Lock()
	known := c.k.known
	c.k.mu.Unlock()
	told := map[[2]string]bool{}
	for _, m := range known {
		for i := range m.volumes {
			v := &m.volumes[i]
			if v.Claim == "" || told[[2]string{m.namespace, v.Claim}] {
				continue
			}
			told[[2]string{m.namespace, v.Claim}] = true
			for _, g := range gauges {
				if n := g.of(v); n != nil {
					to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(*n), m.namespace, v.Claim)
				}
			}
		}
	}
}
