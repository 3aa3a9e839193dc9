package binary

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two, to := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "bin", "howdah")
	for path, text := range map[string]string{one: "first", two: "second"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		from    string
		changed bool
		now     string
	}{{one, true, "first"}, {one, false, "first"}, {two, true, "second"}, {to, false, "second"}} {
		changed, err := Install(step.from, to)
		got, _ := os.ReadFile(to)
		if err != nil || changed != step.changed || string(got) != step.now {
			t.Fatalf("%+v: %v, %v, %q", step, changed, err, got)
		}
	}
	if err := Restore(to); err != nil {
		t.Fatal(err)
	}
	if same, err := Same(one, to); err != nil || !same {
		t.Errorf("the first is not restored: %v", err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Restore(to); err == nil {
		t.Error("there is no other to restore")
	}
	if _, err := Install(filepath.Join(dir, "nothing"), to); err == nil {
		t.Error("nothing is installed")
	}
}
