package nodeagent

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/collect"
)

// LogCollector sends what containers write to the service that keeps it, as an Agent with Config.Logs does.
type LogCollector struct{ *collect.Collector }

// NewLogCollector returns a collector of its own, beside no agent: of a Config it takes Logs, LogRate, LogDir, RootDir, Clock and Registerer. containers are
// those that the runtime has of a pod.
func NewLogCollector(cfg Config, containers func(ctx context.Context, podUID string) ([]*runtimeapi.Container, error)) *LogCollector {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &LogCollector{collect.New(collect.Config{
		Pusher: cfg.Logs, Containers: containers, LogDir: cfg.LogDir, RootDir: cfg.RootDir, Rate: cfg.LogRate, Clock: cfg.Clock, Registerer: cfg.Registerer,
	})}
}
