package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/release"
)

const (
	// insideVariable is set in the process that has namespaces of its own, to the folder with the programs.
	insideVariable = "HOWDAH_TEST_MACHINES"
	endpointName   = "cluster.test"
	patience       = 2 * time.Minute
)

// machine is a control plane of this test: an address and a folder. It has no systemd.
type machine struct {
	t             *testing.T
	name, address string
	dir           string
}

// run runs a howdah of a release on the machine.
func (m machine) run(program string, args ...string) (string, error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m machine) must(program string, args ...string) string {
	m.t.Helper()
	out, err := m.run(program, args...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(m.dir, "run", "howdah-control-plane.log"))
		m.t.Fatalf("%s: howdah %s: %v\n%s\nits control plane says:\n%s", m.name, strings.Join(args, " "), err, out, log)
	}
	return out
}

// of are the flags by which machines differ.
func (m machine) of(args ...string) []string {
	return append(args, "--dir", m.dir, "--node-name", m.name, "--apiserver-advertise-address", m.address, "--apiserver-bind-address", m.address,
		"--service-manager", "process", "--binary", filepath.Join(filepath.Dir(m.dir), "howdah"))
}

// kill ends the machine's control plane as a loss of power does.
func (m machine) kill() {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dir, "run", "howdah-control-plane.pid"))
	if err != nil {
		m.t.Fatal(err)
	}
	var process struct{ PID int }
	if err := json.Unmarshal(data, &process); err != nil || process.PID <= 1 {
		m.t.Fatalf("%s, %v", data, err)
	}
	if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
}

// TestMachines has control planes on several machines: the first is made, another one joins, the first is lost and comes back, and both are upgraded while a client
// writes. The machines are addresses of a network namespace of the test's own, with processes and a hosts file of its own, too: with it, all of them go.
func TestMachines(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		outside(t)
		return
	}
	programs := inside(t)
	old, new := filepath.Join(programs, "old"), filepath.Join(programs, "new")
	database := pgtest.New(t)
	machines := t.TempDir()
	a, b := machine{t, "a", "192.0.2.11", filepath.Join(machines, "a", "etc")}, machine{t, "b", "192.0.2.12", filepath.Join(machines, "b", "etc")}
	ctx := t.Context()

	// The first control plane.
	first := a.of("init", "--database-url", database, "--control-plane-endpoint", endpointName, "--upload-certs")
	if out := a.must(old, append(first, "--dry-run")...); !strings.Contains(out, "[control-plane] would") || there(a.dir) {
		t.Errorf("--dry-run: %s", out)
	}
	out := a.must(old, first...)
	further := regexp.MustCompile(`howdah join (.*) \\\n\s+(--control-plane --certificate-key [0-9a-f]{64})`).FindStringSubmatch(out)
	if further == nil {
		t.Fatalf("there is no command for further control planes:\n%s", out)
	}
	if out, err := a.run(old, first...); err == nil || !strings.Contains(out, "[Initialized]") {
		t.Errorf("again: %v\n%s", err, out)
	}
	client := administrator(t, filepath.Join(a.dir, "admin.conf"), "")
	if _, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}

	// A further one.
	join := append([]string{"join"}, strings.Fields(further[1]+" "+further[2])...)
	if out, err := b.run(old, b.of(append(slices.Clone(join[:len(join)-1]), strings.Repeat("ab", 32))...)...); err == nil || !strings.Contains(out, "the certificate key is another") || there(b.dir) {
		t.Errorf("by another key: %v\n%s", err, out)
	}
	b.must(old, b.of(join...)...)
	leadsTo(t, client, a.address, b.address)
	if out := b.must(old, b.of(join...)...); !strings.Contains(out, "Nothing is changed") {
		t.Errorf("again: %s", out)
	}

	// The keys go with the token that owns them, as they do after two hours.
	keys, err := client.CoreV1().Secrets("kube-system").Get(ctx, "howdah-certs", metav1.GetOptions{})
	if err != nil || len(keys.OwnerReferences) != 1 {
		t.Fatalf("the keys: %v, %v", keys, err)
	}
	if err := client.CoreV1().Secrets("kube-system").Delete(ctx, keys.OwnerReferences[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the keys", func() bool {
		_, err := client.CoreV1().Secrets("kube-system").Get(ctx, "howdah-certs", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	c := machine{t, "c", "192.0.2.13", filepath.Join(machines, "c", "etc")}
	if out, err := c.run(old, c.of(join...)...); err == nil || !strings.Contains(out, "not there to be fetched") || there(c.dir) {
		t.Errorf("after the keys are gone: %v\n%s", err, out)
	}

	// Who writes goes on when the first is lost.
	w := write(t, filepath.Join(b.dir, "admin.conf"))
	w.more(10)
	a.kill()
	w.more(10)
	leadsTo(t, administrator(t, filepath.Join(b.dir, "admin.conf"), "howdah-b"), b.address)
	a.must(old, "init", "phase", "control-plane", "--dir", a.dir)
	a.must(old, "init", "phase", "wait-control-plane", "--dir", a.dir)
	leadsTo(t, client, a.address, b.address)

	// A machine that joins as a node, by the command of the first.
	node := filepath.Join(machines, "node")
	a.must(old, on(append([]string{"join"}, strings.Fields(further[1])...), node, "n1")...)

	// A new release: the first machine, and then the others.
	if out, err := b.run(new, "upgrade", "node", "--dir", b.dir, "--tls-dir", filepath.Join(machines, "none")); err == nil || !strings.Contains(out, "goes first") {
		t.Errorf("the second before the first: %v\n%s", err, out)
	}
	if out := a.must(new, "upgrade", "plan", "--dir", a.dir); !strings.Contains(out, "howdah upgrade apply "+next()) || strings.Count(out, "control plane   ") != 2 {
		t.Errorf("the plan: %s", out)
	}
	backup := filepath.Join(machines, "backup")
	if out := a.must(new, "upgrade", "apply", "-y", "--dir", a.dir, "--backup", backup); !strings.Contains(out, "SUCCESS") || !strings.Contains(out, "control plane b") || !there(backup) {
		t.Errorf("the upgrade: %s", out)
	}
	w.more(10)
	if out, err := a.run(new, "upgrade", "node", "--dir", filepath.Join(machines, "none"), "--tls-dir", node, "--binary", filepath.Join(node, "howdah")); err == nil || !strings.Contains(out, "control planes go before nodes") {
		t.Errorf("a node before the second control plane: %v\n%s", err, out)
	}
	b.must(new, "upgrade", "node", "--dir", b.dir, "--tls-dir", filepath.Join(machines, "none"))
	w.more(10)
	if out := a.must(new, "upgrade", "node", "--dir", filepath.Join(machines, "none"), "--tls-dir", node, "--binary", filepath.Join(node, "howdah")); !strings.Contains(out, "is of "+next()) {
		t.Errorf("the node: %s", out)
	}
	if out := b.must(new, "upgrade", "plan", "--dir", b.dir); !strings.Contains(out, "There is nothing to do.") {
		t.Errorf("the plan after all is done: %s", out)
	}
	w.end()

	// The first is taken away.
	if out := a.must(new, "reset", "-f", "--dir", a.dir, "--tls-dir", filepath.Join(machines, "none")); strings.Contains(out, "warning") || there(a.dir) {
		t.Errorf("reset: %s", out)
	}
	leadsTo(t, administrator(t, filepath.Join(b.dir, "admin.conf"), "howdah-b"), b.address)
	if out := b.must(new, "upgrade", "plan", "--dir", b.dir); strings.Count(out, "control plane   ") != 1 {
		t.Errorf("the plan of what is left: %s", out)
	}
	b.must(new, "reset", "-f", "--dir", b.dir, "--tls-dir", filepath.Join(machines, "none"))
}

// next is a release after this one, of the next minor; its name is as long.
func next() string {
	var major, minor int
	fmt.Sscanf(release.Version(), "v%d.%d", &major, &minor)
	name := fmt.Sprintf("v%d.%d.", major, minor+1)
	return name + strings.Repeat("0", len(release.Version())-len(name))
}

// TestMain has the test's program be howdah itself where it is called so, as it is by services of TestMachines: it need not be built once more.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "howdah", "old", "new":
		main()
		return
	}
	os.Exit(m.Run())
}

// outside makes the programs, and runs the test in namespaces of its own. The new one differs from the old by the name of its release alone.
func outside(t *testing.T) {
	t.Helper()
	programs := t.TempDir()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"old": release.Version(), "new": next()} {
		path := filepath.Join(programs, name)
		if err := os.WriteFile(path, bytes.ReplaceAll(program, []byte(release.Version()), []byte(version)), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "version").CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
			t.Fatalf("howdah version of %s: %v\n%s", version, err, out)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestMachines$", "-test.v", "-test.timeout=9m")
	cmd.Env = append(os.Environ(), insideVariable+"="+programs)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Fatalf("the test needs root, for namespaces of its own: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// inside gives the namespaces what machines have, and returns the folder with the programs.
func inside(t *testing.T) string {
	t.Helper()
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n192.0.2.11 "+endpointName+"\n192.0.2.12 "+endpointName+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	check("keep mounts to oneself", syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""))
	check("mount /proc", syscall.Mount("proc", "/proc", "proc", 0, ""))
	check("mount /etc/hosts", syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""))
	for _, args := range []string{"link set lo up", "address add 192.0.2.11/32 dev lo", "address add 192.0.2.12/32 dev lo"} {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		check("ip "+args+": "+string(out), err)
	}
	return os.Getenv(insideVariable)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// administrator is a client by a kubeconfig, in one of its contexts or in the current one.
func administrator(t *testing.T, file, context string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// await waits for something that nobody tells of.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// leadsTo waits until the Service kubernetes leads to some gateways alone.
func leadsTo(t *testing.T, client kubernetes.Interface, want ...string) {
	t.Helper()
	var got []string
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the Service kubernetes leads to %v (%v), want %v", got, err, want)
		}
	}()
	await(t, "where the Service leads", func() bool { // a watch would end with a control plane
		slice, failed := client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err = failed; err != nil {
			return false
		}
		got = nil
		for _, endpoint := range slice.Endpoints {
			got = append(got, endpoint.Addresses...)
		}
		return slices.Equal(got, want)
	})
}

// writer writes all the time, each value once more than it has been acknowledged, as far as errors can be tried again.
type writer struct {
	t      *testing.T
	done   atomic.Int64
	wrote  chan struct{}
	cancel context.CancelFunc
	ended  chan error
	client kubernetes.Interface
}

func write(t *testing.T, kubeconfig string) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{t: t, wrote: make(chan struct{}, 1), cancel: cancel, ended: make(chan error, 1), client: administrator(t, kubeconfig, "")}
	go func() { w.ended <- w.run(ctx) }()
	t.Cleanup(cancel)
	return w
}

func (w *writer) run(ctx context.Context) error {
	for n := 0; ; n++ {
		for {
			_, err := w.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("write-%d", n)}}, metav1.CreateOptions{})
			if ctx.Err() != nil {
				return nil
			}
			if err == nil || apierrors.IsAlreadyExists(err) { // the answer to an earlier try was lost
				break
			}
			if !retriable(err) {
				return fmt.Errorf("write %d: %w", n, err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(50 * time.Millisecond): // as a client does before it tries again
			}
		}
		w.done.Store(int64(n + 1))
		select {
		case w.wrote <- struct{}{}:
		default:
		}
	}
}

// retriable says whether a client may try again: the server says so, or there was none to say anything.
func retriable(err error) bool {
	if _, ok := apierrors.SuggestsClientDelay(err); ok {
		return true
	}
	if apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) {
		return true
	}
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return false
	}
	_, isNet := errors.AsType[net.Error](err)
	return isNet || strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection") || strings.Contains(err.Error(), "GOAWAY")
}

// more waits until so many more writes are acknowledged.
func (w *writer) more(count int64) {
	w.t.Helper()
	limit := time.After(patience)
	for want := w.done.Load() + count; w.done.Load() < want; {
		select {
		case <-w.wrote:
		case err := <-w.ended:
			w.t.Fatalf("the writer ended: %v", err)
		case <-limit:
			w.t.Fatalf("%d writes, want %d", w.done.Load(), want)
		}
	}
}

// end stops it, and looks whether all that was acknowledged is there.
func (w *writer) end() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Fatal(err)
	}
	all, err := w.client.CoreV1().ConfigMaps("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range all.Items {
		names[m.Name] = true
	}
	for n := range w.done.Load() {
		if !names[fmt.Sprintf("write-%d", n)] {
			w.t.Errorf("write %d was acknowledged, and is not there", n)
		}
	}
	w.t.Logf("%d writes", w.done.Load())
}
