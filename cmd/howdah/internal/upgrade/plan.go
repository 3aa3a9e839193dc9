// Package upgrade brings a cluster to another release, a machine after the other.
package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Kinds of components.
const (
	ControlPlane = "control plane"
	Node         = "node"
)

// Component is a control plane or a node.
type Component struct {
	Kind, Name string
	Version    string // empty: a release that does not tell
	Alive      bool   // a control plane that is silent, as a node that is not Ready, is told of and not waited for
}

// Schema is the database's, beside this program's.
type Schema struct {
	Applied, Known int
	Missing        []string
	Err            error // this program cannot work with it
}

// State is what a plan is made of.
type State struct {
	Binary     string // this program's release
	Cluster    string // that of the newest control plane so far, as the cluster notes it
	Here       string // the control plane of this machine; empty: there is none
	Schema     Schema
	Components []Component
}

// Step is one thing to do, in its order.
type Step struct {
	What    string
	Command string // empty: it is part of the one before
}

// Plan is what an upgrade to this program's release does.
type Plan struct {
	Target   string
	Steps    []Step
	Problems []error // why it is refused
	Warnings []string
}

// Make plans. The rules, all of minor releases:
//
//   - control planes before nodes: no node is newer than the release that control planes get;
//   - at most one apart: of control planes, since two work beside each other while they are upgraded, and of nodes;
//   - back is possible as far, but not below the schema: it is never undone, and a breaking migration ends that.
func Make(s State) Plan {
	p := Plan{Target: s.Binary}
	target, err := parse(s.Binary)
	if err != nil {
		p.Problems = append(p.Problems, err)
		return p
	}
	if s.Schema.Err != nil {
		p.Problems = append(p.Problems, fmt.Errorf("this program cannot work with the database's schema: %w", s.Schema.Err))
	}
	for _, c := range s.Components {
		p.check(c, target)
	}
	if now, err := parse(s.Cluster); err == nil && target.LessThan(now) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the cluster is of %s: this goes back to %s", s.Cluster, s.Binary))
	}
	if len(s.Schema.Missing) > 0 {
		p.Steps = append(p.Steps, Step{fmt.Sprintf("apply %d migrations: %s", len(s.Schema.Missing), strings.Join(s.Schema.Missing, ", ")), ""})
	}
	p.steps(s)
	return p
}

func (p *Plan) check(c Component, target *version.Version) {
	if c.Version == "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s %s does not tell its release", c.Kind, c.Name))
		return
	}
	have, err := parse(c.Version)
	if err != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s %s: %v", c.Kind, c.Name, err))
		return
	}
	if !c.Alive {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s %s (%s) is silent", c.Kind, c.Name, c.Version))
		if c.Kind == ControlPlane {
			return // it may be no more, and its Lease not yet
		}
	}
	switch {
	case have.Major() != target.Major():
		p.Problems = append(p.Problems, fmt.Errorf("%s %s is of %s: %s is another major release", c.Kind, c.Name, c.Version, p.Target))
	case apart(have, target) > 1:
		p.Problems = append(p.Problems, fmt.Errorf("%s %s is of %s: more than one minor release from %s; upgrade to those between first", c.Kind, c.Name, c.Version, p.Target))
	case c.Kind == Node && have.Minor() > target.Minor():
		p.Problems = append(p.Problems, fmt.Errorf("node %s is of %s, newer than %s: control planes go before nodes, and back after them", c.Name, c.Version, p.Target))
	}
}

// steps are the machines that are of another release: this one first, then control planes, then nodes.
func (p *Plan) steps(s State) {
	var rest []Step
	here := false
	for _, kind := range []string{ControlPlane, Node} {
		for _, c := range s.Components {
			if c.Kind != kind || c.Version == s.Binary || kind == ControlPlane && !c.Alive {
				continue
			}
			if kind == ControlPlane && c.Name == s.Here {
				here = true
				continue
			}
			rest = append(rest, Step{fmt.Sprintf("%s %s from %s to %s", kind, c.Name, or(c.Version, "?"), s.Binary), "howdah upgrade node"})
		}
	}
	if here || len(p.Steps) > 0 || s.Cluster != s.Binary {
		p.Steps = append([]Step{{fmt.Sprintf("control plane %s to %s", or(s.Here, "of a machine"), s.Binary), "howdah upgrade apply " + s.Binary}}, p.Steps...)
	}
	p.Steps = append(p.Steps, rest...)
}

// Err is why the plan is refused; nil where it is not.
func (p Plan) Err() error { return errors.Join(p.Problems...) }

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func parse(text string) (*version.Version, error) {
	v, err := version.ParseSemantic(strings.TrimSuffix(text, "+howdah"))
	if err != nil {
		return nil, fmt.Errorf("release %q: %w", text, err)
	}
	return v, nil
}

func apart(a, b *version.Version) uint {
	if a.Minor() > b.Minor() {
		return a.Minor() - b.Minor()
	}
	return b.Minor() - a.Minor()
}

// Joins says whether a control plane of a release may join a cluster: it must not be newer, since then it would be an upgrade, nor older by more than one.
func Joins(release, cluster string) error {
	mine, err := parse(release)
	if err != nil {
		return err
	}
	its, err := parse(cluster)
	if err != nil {
		return fmt.Errorf("the cluster's: %w", err)
	}
	switch {
	case mine.Major() != its.Major() || apart(mine, its) > 1:
		return fmt.Errorf("this program is of %s, and the cluster of %s: they are more than one minor release apart", release, cluster)
	case its.LessThan(mine):
		return fmt.Errorf("this program is of %s, and the cluster of %s: upgrade that first (howdah upgrade apply)", release, cluster)
	}
	return nil
}

// NodeAllowed says whether this machine, beside those of which apply was run, may get this program's release.
func NodeAllowed(s State, agent bool) error {
	var problems []error
	target, err := parse(s.Binary)
	if err != nil {
		return err
	}
	if now, err := parse(s.Cluster); err != nil || now.LessThan(target) {
		problems = append(problems, fmt.Errorf("the cluster is of %s: howdah upgrade apply %s on a control plane goes first", or(s.Cluster, "no release"), s.Binary))
	}
	if s.Here != "" && (len(s.Schema.Missing) > 0 || s.Schema.Err != nil) {
		problems = append(problems, errors.Join(fmt.Errorf("the database's schema is not this program's (%d migrations are missing)", len(s.Schema.Missing)), s.Schema.Err))
	}
	if !agent {
		return errors.Join(problems...)
	}
	for _, c := range s.Components {
		have, err := parse(c.Version)
		if c.Kind != ControlPlane || !c.Alive || err != nil || c.Name == s.Here {
			continue
		}
		if have.Minor() < target.Minor() {
			problems = append(problems, fmt.Errorf("control plane %s is of %s still: control planes go before nodes", c.Name, c.Version))
		}
	}
	return errors.Join(problems...)
}

// Sorted orders components for people: control planes first, by name.
func Sorted(all []Component) []Component {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b Component) int {
		if a.Kind != b.Kind {
			return strings.Compare(a.Kind, b.Kind)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}
