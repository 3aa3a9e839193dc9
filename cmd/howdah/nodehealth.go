package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"howdah.dev/services/controllers"
)

// nodeHealthFlags say how the controllers deal with nodes that are silent and pods that have ended, under Kubernetes' names.
type nodeHealthFlags struct {
	controllers.NodeHealth
	endedPods int
}

func (n *nodeHealthFlags) flags(f *pflag.FlagSet) {
	by := controllers.DefaultNodeHealth
	f.DurationVar(&n.MonitorPeriod, "node-monitor-period", by.MonitorPeriod, "how often nodes' signs of life are looked at")
	f.DurationVar(&n.MonitorGracePeriod, "node-monitor-grace-period", by.MonitorGracePeriod, "how long a node may be silent before it is not ready; several times as long as nodes leave between signs of life (10s)")
	f.DurationVar(&n.StartupGracePeriod, "node-startup-grace-period", by.StartupGracePeriod, "how long a node that is new may be")
	f.Float64Var(&n.EvictionRate, "node-eviction-rate", by.EvictionRate, "from how many nodes a second pods are evicted that are not ready, in a zone most of which is; 0 evicts from none")
	f.Float64Var(&n.SecondaryEvictionRate, "secondary-node-eviction-rate", by.SecondaryEvictionRate, "the same in a zone that is unhealthy and large; in a small one none")
	f.Float64Var(&n.UnhealthyZoneThreshold, "unhealthy-zone-threshold", by.UnhealthyZoneThreshold, "share of a zone's nodes, and at least 3, that is not ready where the zone is unhealthy")
	f.IntVar(&n.LargeClusterSizeThreshold, "large-cluster-size-threshold", by.LargeClusterSizeThreshold, "up to how many nodes a zone is small")
	f.IntVar(&n.endedPods, "terminated-pod-gc-threshold", 12500, "how many pods that have ended are kept; 0 keeps all")
}

// apply writes the settings into those of the controllers, and reports what cannot be.
func (n *nodeHealthFlags) apply(cfg *controllers.Config) error {
	cfg.NodeHealth, cfg.TerminatedPodGCThreshold = n.NodeHealth, n.endedPods
	if n.endedPods <= 0 {
		cfg.TerminatedPodGCThreshold = -1
	}
	var problems []error
	if n.MonitorPeriod <= 0 || n.MonitorGracePeriod <= n.MonitorPeriod || n.StartupGracePeriod <= 0 {
		problems = append(problems, fmt.Errorf("--node-monitor-period (%s) must be greater than 0, and smaller than --node-monitor-grace-period (%s); --node-startup-grace-period (%s) must be greater than 0",
			n.MonitorPeriod, n.MonitorGracePeriod, n.StartupGracePeriod))
	}
	if n.EvictionRate < 0 || n.SecondaryEvictionRate < 0 {
		problems = append(problems, errors.New("--node-eviction-rate and --secondary-node-eviction-rate cannot be negative"))
	}
	if n.UnhealthyZoneThreshold <= 0 || n.UnhealthyZoneThreshold > 1 {
		problems = append(problems, fmt.Errorf("--unhealthy-zone-threshold is a share, greater than 0 and at most 1, not %v", n.UnhealthyZoneThreshold))
	}
	return errors.Join(problems...)
}
