package definitions

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func named(name string, created int64, accepted bool, names apiextensionsv1.CustomResourceDefinitionNames) summary {
	s := summary{name: name, group: "g", created: created, wanted: names}
	if accepted {
		s.accepted = names
	}
	return s
}

func names(plural, kind string, short ...string) apiextensionsv1.CustomResourceDefinitionNames {
	return apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "-one", Kind: kind, ListKind: kind + "List", ShortNames: short}
}

func reasonOf(c change) (status apiextensionsv1.ConditionStatus, reason, message string) {
	for _, one := range c.conditions {
		if one.Type == apiextensionsv1.NamesAccepted {
			return one.Status, one.Reason, one.Message
		}
	}
	return "", "", ""
}

func TestNames(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		own    summary
		others []summary
		reason string
		text   string
	}{
		"nobody else":            {named("a", 1, false, names("as", "A")), nil, "NoConflicts", "no conflicts found"},
		"another plural":         {named("b", 2, false, names("as", "B")), []summary{named("a", 1, true, names("as", "A"))}, "SingularConflict", `"as-one" is already in use`},
		"short is plural":        {named("b", 2, false, names("bs", "B", "as")), []summary{named("a", 1, true, names("as", "A"))}, "ShortNamesConflict", `"as" is already in use`},
		"two short":              {named("b", 2, false, names("bs", "B", "x", "y")), []summary{named("a", 1, true, names("as", "A", "x", "y"))}, "ShortNamesConflict", `["x" is already in use, "y" is already in use]`},
		"kind":                   {named("b", 2, false, names("bs", "A")), []summary{named("a", 1, true, names("as", "A"))}, "ListKindConflict", `"AList" is already in use`},
		"wanted, not accepted":   {named("b", 2, false, names("bs", "A")), []summary{named("a", 1, false, names("as", "A"))}, "NoConflicts", "no conflicts found"},
		"both accepted, older":   {named("a", 1, true, names("as", "A")), []summary{named("b", 2, true, names("bs", "A"))}, "NoConflicts", "no conflicts found"},
		"both accepted, younger": {named("b", 2, true, names("bs", "A")), []summary{named("a", 1, true, names("as", "A"))}, "ListKindConflict", `"AList" is already in use`},
	} {
		got, _ := plan(c.own, append(c.others, c.own))
		if _, reason, text := reasonOf(got); reason != c.reason || text != c.text {
			t.Errorf("%s: %s %s", title, reason, text)
		}
	}
}

// Once the status is what was planned, there is nothing to do.
func TestPlanSettles(t *testing.T) {
	t.Parallel()
	for _, s := range []summary{named("a", 1, false, names("as", "A")), named("b", 2, false, names("bs", "A")), {name: "c", group: "g", created: 3, violations: "bad", wanted: names("cs", "C")}} {
		all := []summary{named("a", 1, true, names("as", "A")), s}
		c, differs := plan(s, all)
		if !differs {
			t.Errorf("%s: a definition without status needs none", s.name)
		}
		s.accepted, s.conditions = c.accepted, c.conditions
		if _, differs := plan(s, all); differs {
			t.Errorf("%s: the plan is not settled by being followed", s.name)
		}
	}
}

// What is established stays so, whatever names it wants later.
func TestEstablishedStays(t *testing.T) {
	t.Parallel()
	s := named("b", 2, true, names("bs", "B"))
	s.conditions = []condition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	s.wanted.ShortNames = []string{"as"}
	c, _ := plan(s, []summary{named("a", 1, true, names("as", "A")), s})
	for _, one := range c.conditions {
		if one.Type == apiextensionsv1.Established {
			t.Errorf("%+v", one)
		}
	}
	if c.accepted.Plural != "bs" || c.accepted.ShortNames != nil {
		t.Errorf("%+v", c.accepted)
	}
}

// A definition whose webhook nobody can believe waits for its authorities.
func TestDistrusted(t *testing.T) {
	t.Parallel()
	s := named("b", 2, false, names("bs", "B"))
	s.distrusts = true
	for _, want := range []condition{
		{Status: apiextensionsv1.ConditionFalse, Reason: "InvalidCABundle", Message: "The conversion webhook CABundle is invalid"},
		{Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
	} {
		c, _ := plan(s, []summary{s})
		s.conditions, s.distrusts = c.conditions, false
		got := s.condition(apiextensionsv1.Established)
		if got == nil || got.Status != want.Status || got.Reason != want.Reason || got.Message != want.Message {
			t.Errorf("%+v instead of %+v", got, want)
		}
	}
}
