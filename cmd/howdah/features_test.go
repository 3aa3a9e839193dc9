package main

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestFeatureGates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		problem string
		on      bool
	}{
		"": {},
		"--feature-gates=CBORServingAndStorage=true":            {on: true},
		"--feature-gates=CBORServingAndStorage=false":           {},
		"--feature-gates=CBORServingAndStorage=maybe":           {problem: `--feature-gates: invalid value of CBORServingAndStorage=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`},
		"--feature-gates=AllAlpha=true":                         {on: true},
		"--feature-gates=AllAlpha=true,CBORServingAndStorage=0": {},
		"--feature-gates=AllBeta=true":                          {},
		"--feature-gates=AllBeta=x":                             {problem: `--feature-gates: invalid value of AllBeta=x, err: strconv.ParseBool: parsing "x": invalid syntax`},
		"--feature-gates=Other=true":                            {problem: "--feature-gates: unrecognized feature gate: Other"},
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
		problem := ""
		if err := g.check(); err != nil {
			problem = err.Error()
		}
		if problem != want.problem || g.enabled(featureCBOR) != want.on {
			t.Errorf("%s: %q, %v", text, problem, g.enabled(featureCBOR))
		}
	}
}
