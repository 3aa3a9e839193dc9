package initialize

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRunSkipsAndStops(t *testing.T) {
	t.Parallel()
	m := setup(t)
	var ran []string
	phase := func(name string, err error) Phase {
		return Phase{Name: name, Run: func(context.Context, *Env) error { ran = append(ran, name); return err }, Tell: func(*Env) string { return "do " + name }}
	}
	broken := errors.New("broken")
	phases := []Phase{phase("one", nil), phase("two", nil), phase("three", broken), phase("four", nil)}
	if err := Run(t.Context(), m.Env, phases, []string{"two"}); !errors.Is(err, broken) || err.Error() != "phase three: broken" {
		t.Errorf("%v", err)
	}
	if !slices.Equal(ran, []string{"one", "three"}) || !strings.Contains(m.out.String(), "[two] skipped") {
		t.Errorf("%v, %s", ran, m.out)
	}
	m.DryRun = true
	if err := Run(t.Context(), m.Env, phases, nil); err != nil || len(ran) != 2 || !strings.Contains(m.out.String(), "[three] would do three") {
		t.Errorf("%v, %v, %s", err, ran, m.out)
	}
}

func TestPhasesTellWhatTheyDo(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.DryRun, m.UploadCerts = true, true
	seen := map[string]bool{}
	for _, p := range Phases() {
		if p.Name == "" || p.Short == "" || seen[p.Name] || strings.HasSuffix(p.Short, ".") {
			t.Errorf("%+v", p)
		}
		seen[p.Name] = true
		if p.Tell == nil {
			continue // it changes nothing
		}
		m.must(t, p.Name)
		if !strings.Contains(m.out.String(), "["+p.Name+"] would ") {
			t.Errorf("%s does not tell:\n%s", p.Name, m.out)
		}
	}
	if _, err := os.Stat(string(m.Folder)); err == nil || len(m.services.calls) > 0 {
		t.Errorf("--dry-run has done something: %v", m.services.calls)
	}
	for _, p := range FurtherPhases() {
		if !seen[p.Name] {
			t.Errorf("%s is no phase of the first", p.Name)
		}
	}
}
