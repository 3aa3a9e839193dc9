package initialize

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// services are those of a machine, which does what it is told.
type services struct {
	calls   []string
	units   map[string]daemon.Unit
	running map[string]bool
}

func (s *services) call(verb, name string) { s.calls = append(s.calls, verb+" "+name) }

func (s *services) Install(_ context.Context, u daemon.Unit) error {
	s.call("install", u.Name)
	s.units[u.Name] = u
	return nil
}

func (s *services) Start(_ context.Context, name string) error {
	s.call("start", name)
	s.running[name] = true
	return nil
}

func (s *services) Restart(_ context.Context, name string) error {
	s.call("restart", name)
	s.running[name] = true
	return nil
}

func (s *services) Stop(_ context.Context, name string) error {
	s.call("stop", name)
	s.running[name] = false
	return nil
}

func (s *services) Status(_ context.Context, name string) (daemon.Status, error) {
	_, installed := s.units[name]
	return daemon.Status{Installed: installed, Running: s.running[name], Detail: "as the test has it"}, nil
}

func (s *services) Remove(_ context.Context, name string) error {
	s.call("remove", name)
	delete(s.units, name)
	s.running[name] = false
	return nil
}

// made is an Env on a folder of its own, with the API of a cluster that has nothing.
type made struct {
	*Env
	services *services
	out      *bytes.Buffer
	client   *object.Client
}

func setup(t *testing.T) made {
	t.Helper()
	_, client := objecttest.Start(t)
	init, cluster := clusterfile.InitDefaults()
	init.BootstrapTokens[0].Token = "abcdef.0123456789abcdef"
	dir := filepath.Join(t.TempDir(), "etc")
	init.Machine.Name, init.Machine.Binary = "a", filepath.Join(t.TempDir(), "bin", "howdah")
	init.Machine.ServiceManager = clusterfile.Process
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, out := &services{units: map[string]daemon.Unit{}, running: map[string]bool{}}, &bytes.Buffer{}
	return made{&Env{
		Folder: Folder(dir), Init: init, Cluster: cluster, Services: s, Executable: program, Release: "v1.36.3", Out: out, Clock: clock.RealClock{},
		Client: func() (*object.Client, error) { return client, nil },
	}, s, out, client}
}

// phase runs one by its name.
func (m made) phase(t *testing.T, name string) error {
	t.Helper()
	for _, p := range Phases() {
		if p.Name == name {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return m.run(ctx, p)
		}
	}
	t.Fatalf("there is no phase %s", name)
	return nil
}

func (m made) must(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := m.phase(t, name); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, m.out)
		}
	}
}
