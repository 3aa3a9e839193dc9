package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/wholefile"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := Process{Folder: filepath.Join(t.TempDir(), "run")}
	environment := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(environment, []byte("HOWDAH_WORD='two words'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Status(ctx, "x"); err != nil || s.Installed || s.Running {
		t.Errorf("nothing is installed: %+v, %v", s, err)
	}
	if err := p.Start(ctx, "x"); err == nil || !strings.Contains(err.Error(), "there is no service x") {
		t.Errorf("nothing is started: %v", err)
	}
	if err := p.Stop(ctx, "x"); err != nil {
		t.Errorf("nothing is ended: %v", err)
	}
	if err := p.Install(ctx, Unit{Name: "x", Command: []string{"/bin/sh", "-c", `echo "$HOWDAH_WORD"; exec sleep 600`}, Environment: environment}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Remove(ctx, "x") })
	pid := func() int {
		t.Helper()
		r, ok := p.alive("x")
		if !ok {
			t.Fatal("it does not run")
		}
		return r.PID
	}
	if err := p.Start(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	first := pid()
	if err := p.Start(ctx, "x"); err != nil || pid() != first {
		t.Errorf("started twice: %v", err)
	}
	await(t, func() bool { text, _ := os.ReadFile(p.Log("x")); return string(text) == "two words\n" })
	if err := p.Restart(ctx, "x"); err != nil || pid() == first {
		t.Errorf("not started anew: %v", err)
	}
	if s, err := p.Status(ctx, "x"); err != nil || !s.Installed || !s.Running {
		t.Errorf("%+v, %v", s, err)
	}

	// A process that has got the number of one that is gone is not ended.
	data, err := json.Marshal(running{os.Getpid(), "1"})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(p.path("x", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(p.path("x", "pid"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(p.path("x", "pid"), kept, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.alive("x"); ok {
		t.Error("it runs on")
	}
	if _, err := os.Stat(p.Folder); err == nil {
		t.Error("something is left")
	}
}

func TestProcessThatEnds(t *testing.T) {
	t.Parallel()
	p := Process{Folder: t.TempDir()}
	if err := p.Install(t.Context(), Unit{Name: "x", Command: []string{"/bin/sh", "-c", "echo why >&2; exit 3"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	var s Status
	await(t, func() bool {
		var err error
		if s, err = p.Status(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		return !s.Running
	})
	if !s.Installed || !strings.Contains(s.Detail, "why") {
		t.Errorf("%+v", s)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to be")
		}
	}
}
