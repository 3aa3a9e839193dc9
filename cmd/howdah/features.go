package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// featureCBOR is the feature gate with which application/cbor is served.
const featureCBOR = "CBORServingAndStorage"

// The gates that stand for many.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// features are the feature gates that can be set, with their stages: Kubernetes' names, all off by default as there.
var features = map[string]string{
	featureCBOR:              allAlpha,
	"ClusterTrustBundle":     allBeta,
	"StorageVersionMigrator": allBeta,
	"PodCertificateRequest":  allBeta,
	"GenericWorkload":        allAlpha,
}

// featureFlags are the feature gates, set as Kubernetes' are: --feature-gates=Name=true.
type featureFlags struct {
	gates map[string]string
}

func (g *featureFlags) flags(f *pflag.FlagSet) {
	f.StringToStringVar(&g.gates, "feature-gates", nil, "features to switch on or off, as Name=true; known are "+strings.Join(slices.Sorted(maps.Keys(features)), ", ")+
		", and AllAlpha and AllBeta for all of a stage (default: all are off). "+featureCBOR+", with which application/cbor is served, belongs on apiservers and gateways; the others switch kinds on that --runtime-config names")
}

// check reports the gates that are not known, and those that are neither on nor off.
func (g *featureFlags) check() error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(g.gates)) {
		if _, known := features[name]; !known && name != allAlpha && name != allBeta {
			problems = append(problems, fmt.Errorf("--feature-gates: unrecognized feature gate: %s", name))
		} else if _, err := strconv.ParseBool(g.gates[name]); err != nil {
			problems = append(problems, fmt.Errorf("--feature-gates: invalid value of %s=%s, err: %w", name, g.gates[name], err))
		}
	}
	return errors.Join(problems...)
}

// enabled reports whether a gate is on: what is said of it decides, or else of its stage.
func (g *featureFlags) enabled(name string) bool {
	for _, key := range []string{name, features[name]} {
		if on, err := strconv.ParseBool(g.gates[key]); err == nil {
			return on
		}
	}
	return false
}

// on are the gates that are on.
func (g *featureFlags) on() map[string]bool {
	all := map[string]bool{}
	for name := range features {
		all[name] = g.enabled(name)
	}
	return all
}
