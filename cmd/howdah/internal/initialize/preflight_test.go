package initialize

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
)

// failing are the names of checks that fail.
func (m made) failing(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, c := range m.checks() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := c.Run(ctx); err != nil {
			names = append(names, c.Name)
		}
		cancel()
	}
	return names
}

func TestChecks(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	m := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // and so it is held until then: a listener that nobody knows is closed with the garbage
	_, text, _ := net.SplitHostPort(listener.Addr().String())
	taken, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := other.Addr().(*net.TCPAddr).Port
	other.Close()
	m.Cluster.Database.URL, m.Init.LocalEndpoint.BindAddress, m.Cluster.Ports.API, m.Cluster.Ports.Nodes = url, "127.0.0.1", int32(taken), int32(free)
	m.Cluster.ControlPlaneEndpoint = "localhost"
	want := func(name string, names ...string) {
		t.Helper()
		if got := m.failing(t); !slices.Equal(got, names) {
			t.Errorf("%s: %v fail, want %v", name, got, names)
		}
	}
	want("a port that is taken", "Port-"+text)
	m.services.running[daemon.ControlPlane] = true
	want("by an earlier try")
	m.UID = 1000
	want("without root", "IsPrivilegedUser")
	m.UID = 0
	m.Cluster.ControlPlaneEndpoint = "kube.invalid"
	want("an endpoint that nobody knows", "ControlPlaneEndpoint")
	m.Cluster.ControlPlaneEndpoint = ""
	m.Cluster.Database.URL = "postgres://127.0.0.1:1/nothing"
	want("no database", "Database")
	m.Cluster.Database.URL = url

	if err := m.save0(); err != nil {
		t.Fatal(err)
	}
	want("a control plane already", "Initialized")
	if err := os.Remove(m.Folder.Marker()); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Apply(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	want("a schema alone")
	write(t, url)
	want("another cluster's database", "DatabaseEmpty")
	m.must(t, "certs")
	want("its own")

	if err := m.phase(t, "preflight"); err != nil {
		t.Error(err)
	}
	m.UID = 1000
	if err := m.phase(t, "preflight"); err == nil || !strings.Contains(err.Error(), "[IsPrivilegedUser]") {
		t.Error(err)
	}
	m.Init.Machine.IgnorePreflightErrors = []string{"IsPrivilegedUser"}
	if err := m.phase(t, "preflight"); err != nil || !strings.Contains(m.out.String(), "warning: IsPrivilegedUser") {
		t.Errorf("%v, %s", err, m.out)
	}
}

// save0 marks the folder as that of a whole control plane.
func (m made) save0() error { return errors.Join(os.MkdirAll(string(m.Folder), 0o755), m.finish()) }

func TestPureChecks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	file := filepath.Join(t.TempDir(), "meminfo")
	mem := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return memory(file)
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"PostgreSQL 15":      {postgresVersion(150004), ""},
		"PostgreSQL 14":      {postgresVersion(140011), "PostgreSQL 14 is too old"},
		"clocks":             {clocks(now, now.Add(-30*time.Second)), ""},
		"clocks apart":       {clocks(now, now.Add(90*time.Second)), "1m30s apart"},
		"enough memory":      {mem("MemTotal:        2048000 kB\nMemFree: 1 kB\n"), ""},
		"too little":         {mem("MemTotal:        204800 kB\n"), "200 MiB of memory are too few"},
		"nothing to be read": {mem("MemFree: 1 kB\n"), "does not say"},
	} {
		if (tt.err == nil) != (tt.want == "") || tt.err != nil && !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, tt.err, tt.want)
		}
	}
	if names := CheckNames(); !slices.Contains(names, "Port-6443") || !slices.Contains(names, "Port-7444") || !slices.Contains(names, "Schema") {
		t.Errorf("%v", names)
	}
}
