package obs

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a metric and returns it, or the one of its name that another role of the process has registered.
func Register[T prometheus.Collector](registerer prometheus.Registerer, metric T) T {
	err := registerer.Register(metric)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(T)
	} else if err != nil {
		panic(err) // as MustRegister does
	}
	return metric
}
