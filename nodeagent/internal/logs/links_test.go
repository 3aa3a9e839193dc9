package logs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := Links(filepath.Join(dir, "containers"))
	if err := l.Sweep(); err != nil { // there is no folder yet
		t.Error(err)
	}
	if got := filepath.Base(l.Name("p", "ns", "c", "1234")); got != "p_ns_c-1234.log" {
		t.Error(got)
	}
	if got := filepath.Base(l.Name(strings.Repeat("p", 253), "ns", "c", "1234")); len(got) != 255 || !strings.HasSuffix(got, "p.log") && !strings.HasSuffix(got, "_.log") {
		t.Errorf("%d %s", len(got), got)
	}
	add := func(name string, exists bool) string {
		t.Helper()
		log := filepath.Join(dir, name)
		if exists {
			if err := os.WriteFile(log, []byte("said"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := l.Add(l.Name("p", "ns", name, "1"), log); err != nil {
				t.Error(err)
			}
		}
		return log
	}
	gone, aside := add("gone", true), add("aside", true)
	add("stays", true)
	add("never", false)
	if err := os.WriteFile(filepath.Join(string(l), "file.log"), nil, 0o600); err != nil { // somebody else's
		t.Fatal(err)
	}
	if said, err := os.ReadFile(l.Name("p", "ns", "stays", "1")); err != nil || string(said) != "said" {
		t.Errorf("%q, %v", said, err)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, aside+".20260102-030405"); err != nil {
		t.Fatal(err)
	}
	if err := l.Sweep(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(string(l))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"file.log", "p_ns_aside-1.log", "p_ns_stays-1.log"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v; want %v", names, err, want)
	}
	if err := Links("").Add("x", gone); err != nil {
		t.Error(err)
	}
}
