package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"howdah.dev/services/controllers"
)

// autoscalingFlags say how HorizontalPodAutoscalers are carried out, under Kubernetes' names.
type autoscalingFlags struct{ controllers.Autoscaling }

func (a *autoscalingFlags) flags(f *pflag.FlagSet) {
	f.DurationVar(&a.SyncPeriod, "horizontal-pod-autoscaler-sync-period", 15*time.Second, "how often a HorizontalPodAutoscaler is looked at")
	f.IntVar(&a.Workers, "concurrent-horizontal-pod-autoscaler-syncs", 5, "how many of them at the same time")
	f.DurationVar(&a.DownscaleStabilization, "horizontal-pod-autoscaler-downscale-stabilization", 5*time.Minute, "for how long no fewer replicas are taken than were recommended")
	f.Float64Var(&a.Tolerance, "horizontal-pod-autoscaler-tolerance", 0.1, "by which share of its target a metric may be off without anything being done")
	f.DurationVar(&a.CPUInitializationPeriod, "horizontal-pod-autoscaler-cpu-initialization-period", 5*time.Minute, "how long after its start a pod's CPU may not count")
	f.DurationVar(&a.InitialReadinessDelay, "horizontal-pod-autoscaler-initial-readiness-delay", 30*time.Second, "how long after its start changes of a pod's readiness are taken for its first")
}

// validate reports what cannot be.
func (a *autoscalingFlags) validate() error {
	var problems []error
	if a.Workers < 1 {
		problems = append(problems, fmt.Errorf("concurrent-horizontal-pod-autoscaler-syncs must be greater than 0, but got %d", a.Workers))
	}
	for name, value := range map[string]float64{
		"sync-period": float64(a.SyncPeriod), "downscale-stabilization": float64(a.DownscaleStabilization), "tolerance": a.Tolerance,
		"cpu-initialization-period": float64(a.CPUInitializationPeriod), "initial-readiness-delay": float64(a.InitialReadinessDelay),
	} {
		if value <= 0 {
			problems = append(problems, fmt.Errorf("--horizontal-pod-autoscaler-%s must be greater than 0", name))
		}
	}
	return errors.Join(problems...)
}
