package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
)

// featureCBOR is the one feature gate that can be set: application/cbor is served. It has Kubernetes' name and default, which
// is off.
const featureCBOR = "CBORServingAndStorage"

// featureFlags are the feature gates, set as Kubernetes' are: --feature-gates=Name=true.
type featureFlags struct {
	gates map[string]string
}

func (g *featureFlags) flags(f *pflag.FlagSet) {
	f.StringToStringVar(&g.gates, "feature-gates", nil, "features to switch on or off, as Name=true; known is "+featureCBOR+" (default false), with which application/cbor is served: set it on apiservers and gateways")
}

// check reports the gates that are not known, and those that are neither on nor off.
func (g *featureFlags) check() error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(g.gates)) {
		if name != featureCBOR {
			problems = append(problems, fmt.Errorf("--feature-gates: unrecognized feature gate: %s", name))
		} else if _, err := strconv.ParseBool(g.gates[name]); err != nil {
			problems = append(problems, fmt.Errorf("--feature-gates: invalid value of %s=%s, err: %w", name, g.gates[name], err))
		}
	}
	return errors.Join(problems...)
}

func (g *featureFlags) enabled(name string) bool {
	on, err := strconv.ParseBool(g.gates[name])
	return err == nil && on
}
