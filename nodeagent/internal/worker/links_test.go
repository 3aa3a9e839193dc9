package worker

import (
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/nodeagent/internal/container"
)

// TestLogsAreLinked: programs that gather a node's logs find each container's by the names in one folder, as long as it is there.
func TestLogsAreLinked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := newPod("p", "a")
	dir := filepath.Join(container.LogDirectory(w.dir+"/log", p.Namespace, p.Name, string(p.UID)), "a")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0.log"), []byte("said"), 0o600); err != nil { // as the runtime does
		t.Fatal(err)
	}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	links := func() []string {
		found, err := filepath.Glob(filepath.Join(w.dir, "containers", "p_ns_a-*.log"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := links()
	if len(found) != 1 {
		t.Fatalf("links: %v", found)
	}
	if said, err := os.ReadFile(found[0]); err != nil || string(said) != "said" {
		t.Errorf("%q, %v", said, err)
	}
	m.Update(endingPod(p, 1))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if found := links(); len(found) > 0 {
		t.Errorf("links that lead nowhere: %v", found)
	}
}
