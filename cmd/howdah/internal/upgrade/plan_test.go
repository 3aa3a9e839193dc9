package upgrade

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func control(name, version string) Component { return Component{ControlPlane, name, version, true} }
func node(name, version string) Component    { return Component{Node, name, version, true} }
func silent(c Component) Component           { c.Alive = false; return c }

func TestMake(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state    State
		steps    []string // their commands, of those that have one
		problems []string
		warnings []string
	}{
		"nothing to do": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), node("n", "v1.37.0")}}, nil, nil, nil},
		"a minor release": {State{Binary: "v1.37.0", Cluster: "v1.36.3", Here: "b", Components: []Component{control("a", "v1.36.3"), control("b", "v1.36.3"), node("n", "v1.36.3")}},
			[]string{"howdah upgrade apply v1.37.0", "howdah upgrade node", "howdah upgrade node"}, nil, nil},
		"a patch": {State{Binary: "v1.36.4", Cluster: "v1.36.3", Here: "a", Components: []Component{control("a", "v1.36.3")}}, []string{"howdah upgrade apply v1.36.4"}, nil, nil},
		"half done": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), control("b", "v1.36.3"), node("n", "v1.36.3")}},
			[]string{"howdah upgrade node", "howdah upgrade node"}, nil, nil},
		"two minor releases": {State{Binary: "v1.38.0", Cluster: "v1.36.3", Here: "a", Components: []Component{control("a", "v1.36.3"), node("n", "v1.36.3")}},
			[]string{"howdah upgrade apply v1.38.0", "howdah upgrade node"}, []string{"control plane a", "node n"}, nil},
		"a node two behind": {State{Binary: "v1.38.0", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), node("n", "v1.36.3")}},
			[]string{"howdah upgrade apply v1.38.0", "howdah upgrade node"}, []string{"node n is of v1.36.3: more than one minor release"}, nil},
		"a node before": {State{Binary: "v1.36.4", Cluster: "v1.36.3", Here: "a", Components: []Component{control("a", "v1.36.3"), node("n", "v1.37.0")}},
			[]string{"howdah upgrade apply v1.36.4", "howdah upgrade node"}, []string{"node n is of v1.37.0, newer than v1.36.4"}, nil},
		"back": {State{Binary: "v1.36.3", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), node("n", "v1.36.3")}},
			[]string{"howdah upgrade apply v1.36.3"}, nil, []string{"goes back"}},
		"back, below the schema": {State{Binary: "v1.36.3", Cluster: "v1.37.0", Here: "a", Schema: Schema{Applied: 12, Known: 9, Err: errors.New("too old")}, Components: []Component{control("a", "v1.37.0")}},
			[]string{"howdah upgrade apply v1.36.3"}, []string{"the database's schema: too old"}, []string{"goes back"}},
		"another major release": {State{Binary: "v2.0.0", Cluster: "v1.36.3", Here: "a", Components: []Component{control("a", "v1.36.3")}},
			[]string{"howdah upgrade apply v2.0.0"}, []string{"another major release"}, nil},
		"a control plane that is no more": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), silent(control("b", "v1.30.0"))}},
			nil, nil, []string{"control plane b (v1.30.0) is silent"}},
		"one that does not tell": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "a", Components: []Component{control("a", "v1.37.0"), control("b", "")}},
			[]string{"howdah upgrade node"}, nil, []string{"b does not tell"}},
		"a schema that is behind": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "a", Schema: Schema{Missing: []string{"0010_x.sql"}}, Components: []Component{control("a", "v1.37.0")}},
			[]string{"howdah upgrade apply v1.37.0"}, nil, nil},
		"no release": {State{Binary: "devel"}, nil, []string{`release "devel"`}, nil},
	} {
		p := Make(tt.state)
		var steps []string
		for _, s := range p.Steps {
			if s.Command != "" {
				steps = append(steps, s.Command)
			}
		}
		if !slices.Equal(steps, tt.steps) {
			t.Errorf("%s: %q, want %q", name, steps, tt.steps)
		}
		if len(p.Problems) != len(tt.problems) || (p.Err() == nil) != (len(tt.problems) == 0) || len(p.Warnings) != len(tt.warnings) {
			t.Errorf("%s: problems %v, warnings %q", name, p.Problems, p.Warnings)
		}
		for _, want := range tt.problems {
			if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", name, err, want)
			}
		}
		for _, want := range tt.warnings {
			if !strings.Contains(strings.Join(p.Warnings, "\n"), want) {
				t.Errorf("%s: %q lacks %q", name, p.Warnings, want)
			}
		}
		var out bytes.Buffer
		if err := Print(&out, tt.state, p); err != nil {
			t.Fatal(err)
		}
		if refused := strings.Contains(out.String(), "refused:"); refused != (len(tt.problems) > 0) {
			t.Errorf("%s: %s", name, &out)
		}
	}
}

// TestStepsAreInOrder holds that this machine is first, and that no node goes before a control plane, whatever the order in which they are told.
func TestStepsAreInOrder(t *testing.T) {
	t.Parallel()
	p := Make(State{
		Binary: "v1.37.0", Cluster: "v1.36.0", Here: "b", Schema: Schema{Missing: []string{"0010_x.sql"}},
		Components: []Component{node("n", "v1.36.0"), control("a", "v1.36.0"), node("m", "v1.37.0"), control("b", "v1.36.0")},
	})
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.What)
	}
	want := []string{"control plane b to v1.37.0", "apply 1 migrations: 0010_x.sql", "control plane a from v1.36.0 to v1.37.0", "node n from v1.36.0 to v1.37.0"}
	if !slices.Equal(got, want) || len(p.Problems) > 0 {
		t.Errorf("%q, %v", got, p.Problems)
	}
}

func TestJoins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mine, its string
		want      bool
	}{
		{"v1.36.3", "v1.36.3", true}, {"v1.36.2", "v1.36.3", true}, {"v1.35.9", "v1.36.3", true}, {"v1.34.0", "v1.36.3", false},
		{"v1.36.4", "v1.36.3", false}, {"v1.37.0", "v1.36.3", false}, {"v2.36.3", "v1.36.3", false}, {"v1.36.3", "", false},
	} {
		if err := Joins(tt.mine, tt.its); (err == nil) != tt.want {
			t.Errorf("%s to %s: %v", tt.mine, tt.its, err)
		}
	}
}

func TestNodeAllowed(t *testing.T) {
	t.Parallel()
	both := []Component{control("a", "v1.37.0"), control("b", "v1.36.3")}
	for name, tt := range map[string]struct {
		state State
		agent bool
		want  string // a part of the error; empty: it is
	}{
		"a control plane after apply":  {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "b", Components: both}, false, ""},
		"before":                       {State{Binary: "v1.37.0", Cluster: "v1.36.3", Here: "b", Components: both}, false, "goes first"},
		"of no release":                {State{Binary: "v1.37.0", Here: "b", Components: both}, false, "goes first"},
		"with another schema":          {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "b", Schema: Schema{Missing: []string{"x"}}, Components: both}, false, "1 migrations are missing"},
		"a node before control planes": {State{Binary: "v1.37.0", Cluster: "v1.37.0", Components: both}, true, "control plane b is of v1.36.3 still"},
		"the node of the last one":     {State{Binary: "v1.37.0", Cluster: "v1.37.0", Here: "b", Components: both}, true, ""},
		"beside one that is no more":   {State{Binary: "v1.37.0", Cluster: "v1.37.0", Components: []Component{both[0], silent(both[1])}}, true, ""},
		"a patch":                      {State{Binary: "v1.36.4", Cluster: "v1.36.4", Components: []Component{both[1]}}, true, ""},
	} {
		err := NodeAllowed(tt.state, tt.agent)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
