// Package gate has the feature gates: Kubernetes' names, stages and defaults, and which of them can be switched here.
package gate

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The gates that can be switched. All others are as Kubernetes has them by default, and setting them to anything else is an error.
const (
	// CBOR has application/cbor served.
	CBOR = "CBORServingAndStorage"
	// ToZero lets HorizontalPodAutoscalers have targets without replicas.
	ToZero = "HPAScaleToZero"
	// TrustBundle has ClusterTrustBundles, and one of the API server's own authority.
	TrustBundle = "ClusterTrustBundle"

	maxUnavailable  = "MaxUnavailableStatefulSet"
	splitLogs       = "PodLogsQuerySplitStreams"
	stopSignals     = "ContainerStopSignals"
	trustProjection = "ClusterTrustBundleProjection"
	migrator        = "StorageVersionMigrator"
	podCertificate  = "PodCertificateRequest"
	workload        = "GenericWorkload"
)

// Switchable returns the names of the gates that can be switched.
func Switchable() []string {
	return []string{CBOR, TrustBundle, trustProjection, stopSignals, workload, ToZero, maxUnavailable, podCertificate, splitLogs, migrator}
}

// needs are, by a gate that can be switched, those that have to be on with it.
func needs() map[string][]string { return map[string][]string{trustProjection: {TrustBundle}} }

// Stage is how far a feature is.
type Stage string

// The stages, as metrics name them.
const (
	Alpha      Stage = "ALPHA"
	Beta       Stage = "BETA"
	Stable     Stage = ""
	Deprecated Stage = "DEPRECATED"
)

// groups are the gates that stand for all of a stage.
func groups() map[string]Stage { return map[string]Stage{"AllAlpha": Alpha, "AllBeta": Beta} }

// Gate is one feature gate.
type Gate struct {
	Name  string
	Stage Stage
	// Default is whether Kubernetes has it on; Locked, that it does not let it be changed.
	Default, Locked bool
}

//go:embed gates.txt
var table string

// Table returns all gates, by name.
func Table() []Gate {
	var gates []Gate
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		g := Gate{Name: words[0], Stage: Stage(words[1]), Default: words[2] == "true", Locked: len(words) > 3}
		if g.Stage == "GA" {
			g.Stage = Stable
		}
		gates = append(gates, g)
	}
	return gates
}

// Set is what was said of gates.
type Set struct {
	gates []Gate
	said  map[string]bool
	// Warnings are what to tell whoever sets gates that are going to be removed.
	Warnings []string
}

// Parse reads settings of the form [kube:]Name=true|false. Its error names every problem, those of Kubernetes in its words.
func Parse(settings []string) (*Set, error) {
	s := &Set{gates: Table(), said: map[string]bool{}}
	var problems []error
	for _, setting := range settings {
		if setting = strings.TrimSpace(setting); setting == "" {
			continue
		}
		if err := s.read(setting); err != nil {
			problems = append(problems, err)
		}
	}
	for _, g := range s.gates {
		if err := s.check(g); err != nil {
			problems = append(problems, err)
		}
	}
	for name, others := range needs() {
		off := slices.DeleteFunc(slices.Clone(others), s.Enabled)
		if s.Enabled(name) && len(off) > 0 {
			problems = append(problems, fmt.Errorf("%s is enabled, but depends on features that are disabled: %v", name, off))
		}
	}
	return s, errors.Join(problems...)
}

func (s *Set) read(setting string) error {
	name, value, both := strings.Cut(setting, "=")
	if component, rest, prefixed := strings.Cut(name, ":"); prefixed {
		if component != "kube" {
			return fmt.Errorf("component not registered: %s", component)
		}
		name = rest
	}
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !both {
		return fmt.Errorf("missing bool value for %s", name)
	}
	if !slices.ContainsFunc(s.gates, func(g Gate) bool { return g.Name == name }) {
		return fmt.Errorf("unrecognized feature gate: %s", name)
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("invalid value of %s=%s, err: %w", name, value, err)
	}
	s.said[name] = on
	return nil
}

// check refuses what is said of a gate and cannot be done.
func (s *Set) check(g Gate) error {
	on, said := s.said[g.Name]
	if !said {
		return nil
	}
	switch g.Stage {
	case Stable:
		s.Warnings = append(s.Warnings, fmt.Sprintf("setting GA feature gate %s=%t. It will be removed in a future release.", g.Name, on))
	case Deprecated:
		s.Warnings = append(s.Warnings, fmt.Sprintf("setting deprecated feature gate %s=%t. It will be removed in a future release.", g.Name, on))
	}
	stage, group := groups()[g.Name]
	switch {
	case group && s.fixed(stage, on):
		return fmt.Errorf("cannot set feature gate %s to %t: of its features only these can be switched here, by their own names: %s", g.Name, on, strings.Join(s.switchable(stage), ", "))
	case group || on == g.Default || slices.Contains(Switchable(), g.Name):
		return nil
	case g.Locked:
		return fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", g.Name, on, g.Default)
	}
	return fmt.Errorf("cannot set feature gate %s to %t: the feature is always %s here", g.Name, on, map[bool]string{true: "on", false: "off"}[g.Default])
}

// fixed reports whether all of a stage's features cannot be switched to what is wanted: one is not so here, and nothing was said of it.
func (s *Set) fixed(stage Stage, on bool) bool {
	return slices.ContainsFunc(s.gates, func(g Gate) bool {
		_, group := groups()[g.Name]
		_, said := s.said[g.Name]
		return g.Stage == stage && g.Default != on && !group && !said && !g.Locked && !slices.Contains(Switchable(), g.Name)
	})
}

// switchable are the names of the gates of a stage that can be switched.
func (s *Set) switchable(stage Stage) []string {
	var names []string
	for _, g := range s.gates {
		if g.Stage == stage && slices.Contains(Switchable(), g.Name) {
			names = append(names, g.Name)
		}
	}
	return names
}

// Enabled reports whether a gate is on.
func (s *Set) Enabled(name string) bool {
	if on, said := s.said[name]; said {
		return on
	}
	i := slices.IndexFunc(s.gates, func(g Gate) bool { return g.Name == name })
	if i < 0 {
		return false
	}
	for group, stage := range groups() {
		if on, said := s.said[group]; said && s.gates[i].Stage == stage && !s.gates[i].Locked {
			return on
		}
	}
	return s.gates[i].Default
}

// All are the gates that can be switched, and whether they are on.
func (s *Set) All() map[string]bool {
	all := map[string]bool{}
	for _, name := range Switchable() {
		all[name] = s.Enabled(name)
	}
	return all
}
