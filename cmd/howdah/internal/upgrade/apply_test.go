package upgrade

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pki"
	"howdah.dev/migrations"
)

// services run nothing, and say so.
type services struct {
	calls     []string
	installed bool
}

func (s *services) Install(context.Context, daemon.Unit) error { return nil }
func (s *services) Start(context.Context, string) error        { return nil }
func (s *services) Stop(context.Context, string) error         { return nil }
func (s *services) Remove(context.Context, string) error       { return nil }
func (s *services) Restart(_ context.Context, name string) error {
	s.calls = append(s.calls, "restart "+name)
	return nil
}
func (s *services) Status(context.Context, string) (daemon.Status, error) {
	return daemon.Status{Installed: s.installed, Detail: "it has ended"}, nil
}

type cluster struct {
	env      *initialize.Env
	client   *object.Client
	services *services
	out      *bytes.Buffer
}

// setup is a control plane of v1.36.3 whose service never comes, and a program of v1.37.0.
func setup(t *testing.T) cluster {
	t.Helper()
	_, client := objecttest.Start(t)
	init, config := clusterfile.InitDefaults()
	config.Database.URL = pgtest.New(t, pgtest.Template{Name: "migrated", Setup: migrations.Apply})
	config.Version = "v1.36.3"
	config.Ports.API = 1 // nobody answers there
	init.Machine.Name, init.Machine.ServiceManager, init.Timeout = "a", clusterfile.Process, &metav1.Duration{Duration: time.Second}
	dir := t.TempDir()
	init.Machine.Binary = filepath.Join(dir, "howdah")
	program := filepath.Join(dir, "new")
	for path, text := range map[string]string{init.Machine.Binary: "old", program: "new"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder := initialize.Folder(filepath.Join(dir, "etc"))
	if err := pki.Init(folder.PKI(), pki.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := initialize.UploadConfig(t.Context(), client, config); err != nil {
		t.Fatal(err)
	}
	c := cluster{client: client, services: &services{}, out: &bytes.Buffer{}}
	c.env = &initialize.Env{
		Folder: folder, Init: init, Cluster: config, Services: c.services, Executable: program, Release: "v1.37.0", Out: c.out, Clock: clock.RealClock{},
		Client: func() (*object.Client, error) { return client, nil },
	}
	c.lease(t, "a", "v1.36.3")
	return c
}

func (c cluster) lease(t *testing.T, name, version string) {
	t.Helper()
	now := metav1.NewMicroTime(time.Now())
	if _, err := object.For(c.client, object.Lease).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "apiserver-" + name, Annotations: map[string]string{"howdah.dev/version": version},
		Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": name},
	}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}); err != nil {
		t.Fatal(err)
	}
}

// applying notes what is done, in its order.
func (c cluster) applying(did *[]string) Applying {
	do := func(what string) func(context.Context) error {
		return func(context.Context) error { *did = append(*did, what); return nil }
	}
	return Applying{Env: c.env, Out: c.out, Database: do("backup"), Migrate: do("migrate"), Confirm: func() error { return do("confirm")(nil) }}
}

func TestApplyPutsTheBinaryBack(t *testing.T) {
	t.Parallel()
	c := setup(t)
	var did []string
	err := Apply(t.Context(), c.applying(&did))
	if err == nil || !strings.Contains(err.Error(), "it has ended") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(c.env.Init.Machine.Binary); err != nil || string(text) != "old" {
		t.Errorf("the binary is %q, %v", text, err)
	}
	if !slices.Equal(did, []string{"confirm", "backup", "migrate"}) || len(c.services.calls) != 2 {
		t.Errorf("%v, %v", did, c.services.calls)
	}
	if config, err := object.For(c.client, object.ConfigMap).Get(t.Context(), "kube-system", initialize.ConfigName); err != nil || !strings.Contains(config.Data[initialize.ConfigKey], "v1.36.3") {
		t.Errorf("the cluster notes %v, %v", config, err)
	}
}

func TestApplyStopsInTime(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		change func(*testing.T, *cluster, *Applying)
		did    []string
	}{
		"refused":   {func(t *testing.T, c *cluster, _ *Applying) { c.lease(t, "b", "v1.35.0") }, nil},
		"--dry-run": {func(_ *testing.T, _ *cluster, a *Applying) { a.DryRun = true }, nil},
		"not meant": {func(_ *testing.T, _ *cluster, a *Applying) { a.Confirm = func() error { return failed } }, nil},
		"no backup": {func(_ *testing.T, _ *cluster, a *Applying) {
			a.Database = func(context.Context) error { return failed }
		}, []string{"confirm"}},
		"no schema": {func(_ *testing.T, _ *cluster, a *Applying) { a.Migrate = func(context.Context) error { return failed } }, []string{"confirm", "backup"}},
	} {
		c := setup(t)
		var did []string
		a := c.applying(&did)
		tt.change(t, &c, &a)
		if err := Apply(t.Context(), a); (err == nil) != a.DryRun {
			t.Errorf("%s: %v", name, err)
		}
		if text, _ := os.ReadFile(c.env.Init.Machine.Binary); string(text) != "old" || len(c.services.calls) > 0 || !slices.Equal(did, tt.did) {
			t.Errorf("%s: %q, %v, %v", name, text, c.services.calls, did)
		}
	}
}

func TestReadAndHere(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.0"}}},
	} {
		if _, err := object.For(c.client, object.Node).Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	s, p, err := Here(t.Context(), c.env)
	if err != nil || s.Cluster != "v1.36.3" || s.Here != "a" || len(s.Components) != 3 || s.Schema.Applied == 0 || len(s.Schema.Missing) > 0 || len(p.Problems) > 0 || len(p.Steps) != 2 {
		t.Errorf("%+v, %+v, %v", s, p, err)
	}
	if i := slices.IndexFunc(s.Components, func(c Component) bool { return c.Name == "m" }); i < 0 || s.Components[i].Alive || s.Components[i].Version != "v1.37.0" {
		t.Errorf("%+v", s.Components)
	}
}

// TestMachineAgent upgrades a node, by its service or, where another one runs it, only its binary.
func TestMachineAgent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cluster, control string
		installed        bool
		want             string // of what is said, or of the error
		replaced         bool
	}{
		"by a service":        {"v1.37.0", "v1.37.0", true, "containers run on", true},
		"by something else":   {"v1.37.0", "v1.37.0", false, "start the node agent anew by what runs it", true},
		"before the cluster":  {"v1.36.3", "v1.36.3", true, "goes first", false},
		"before one of these": {"v1.37.0", "v1.36.3", true, "control planes go before nodes", false},
	} {
		c := setup(t)
		c.env.Cluster.Version = tt.cluster
		if err := initialize.UploadConfig(t.Context(), c.client, c.env.Cluster); err != nil {
			t.Fatal(err)
		}
		c.lease(t, "b", tt.control)
		if err := object.For(c.client, object.Lease).Delete(t.Context(), "kube-system", "apiserver-a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.services.installed = tt.installed
		m := Machine{Release: "v1.37.0", Out: c.out, Agent: &Agent{
			Services: c.services, Executable: c.env.Executable, Binary: c.env.Init.Machine.Binary,
			Reading: Reading{Client: c.client, Release: "v1.37.0", Now: time.Now()},
		}}
		err := m.Run(t.Context())
		if said := c.out.String(); (err == nil) != tt.replaced || err == nil && !strings.Contains(said, tt.want) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %s", name, err, said)
		}
		text, _ := os.ReadFile(c.env.Init.Machine.Binary)
		if restarted := slices.Contains(c.services.calls, "restart "+daemon.NodeAgent); (string(text) == "new") != tt.replaced || restarted != (tt.replaced && tt.installed) {
			t.Errorf("%s: %q, %v", name, text, c.services.calls)
		}
	}
	if err := (Machine{}).Run(t.Context()); err == nil {
		t.Error("a machine that is nothing is upgraded")
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	file := filepath.Join(t.TempDir(), "dump")
	if err := Backup(t.Context(), url, file, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(data, []byte("PGDMP")) {
		t.Errorf("%.10q, %v", data, err)
	}
	if err := Backup(t.Context(), url, file, &bytes.Buffer{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("another one is overwritten: %v", err)
	}
	other := filepath.Join(t.TempDir(), "dump")
	err = Backup(t.Context(), "postgres://howdah:seCret@127.0.0.1:1/x", other, &bytes.Buffer{})
	if _, left := os.Stat(other); err == nil || strings.Contains(err.Error(), "seCret") || left == nil {
		t.Errorf("of no database: %v, %v", err, left)
	}
}
