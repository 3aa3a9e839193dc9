package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"howdah.dev/cmd/howdah/internal/gate"
)

func TestFeatureGates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		problem string
		on      bool
	}{
		"": {},
		"--feature-gates=CBORServingAndStorage=true":                      {on: true},
		"--feature-gates=CBORServingAndStorage=true,GangScheduling=false": {on: true},
		"--feature-gates=Other=true":                                      {problem: "--feature-gates: unrecognized feature gate: Other"},
		"--feature-gates=GangScheduling=true":                             {problem: "--feature-gates: cannot set feature gate GangScheduling to true: the feature is always off here"},
	} {
		var g featureFlags
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		g.flags(f)
		var args []string
		if text != "" {
			args = []string{text}
		}
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		set, err := g.gates()
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if problem != want.problem || set.Enabled(gate.CBOR) != want.on {
			t.Errorf("%s: %q, %v", text, problem, set.Enabled(gate.CBOR))
		}
		registry := prometheus.NewRegistry()
		tell(set, registry)
		if families, err := registry.Gather(); len(families) != 1 || err != nil {
			t.Errorf("%d metrics, %v", len(families), err)
		}
	}
}
