package gate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register tells the state of all gates in Kubernetes' metric; a registry that has it already, that of a process with several roles,
// stays as it is.
func (s *Set) Register(registerer prometheus.Registerer) error {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled", Help: "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
	}, []string{"name", "stage"})
	for _, g := range s.gates {
		value := 0.0
		if s.Enabled(g.Name) {
			value = 1
		}
		metric.WithLabelValues(g.Name, string(g.Stage)).Set(value)
	}
	err := registerer.Register(metric)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		return nil
	}
	return err
}
