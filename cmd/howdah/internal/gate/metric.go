package gate

import (
	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/kit/obs"
)

// Register tells the state of all gates in Kubernetes' metric; in a process with several roles, whose gates are the same, all tell it in one.
func (s *Set) Register(registerer prometheus.Registerer) {
	metric := obs.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled", Help: "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
	}, []string{"name", "stage"}))
	for _, g := range s.gates {
		value := 0.0
		if s.Enabled(g.Name) {
			value = 1
		}
		metric.WithLabelValues(g.Name, string(g.Stage)).Set(value)
	}
}
