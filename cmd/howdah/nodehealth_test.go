package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"howdah.dev/services/controllers"
)

func TestNodeHealthFlags(t *testing.T) {
	t.Parallel()
	set := func(arguments ...string) (controllers.Config, error) {
		t.Helper()
		var n nodeHealthFlags
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		n.flags(f)
		if err := f.Parse(arguments); err != nil {
			t.Fatal(err)
		}
		var cfg controllers.Config
		return cfg, n.apply(&cfg)
	}
	if cfg, err := set(); err != nil || cfg.NodeHealth != controllers.DefaultNodeHealth || cfg.TerminatedPodGCThreshold != 12500 {
		t.Errorf("by default %+v, %v", cfg, err)
	}
	if cfg, err := set("--node-eviction-rate=0", "--terminated-pod-gc-threshold=0", "--node-monitor-grace-period=20s"); err != nil || cfg.NodeHealth.EvictionRate != 0 ||
		cfg.TerminatedPodGCThreshold >= 0 || cfg.NodeHealth.MonitorGracePeriod.Seconds() != 20 {
		t.Errorf("%+v, %v", cfg, err)
	}
	for argument, want := range map[string]string{
		"--node-monitor-grace-period=5s": "smaller than --node-monitor-grace-period", "--node-eviction-rate=-1": "cannot be negative", "--unhealthy-zone-threshold=2": "at most 1",
	} {
		if _, err := set(argument); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argument, err)
		}
	}
}
