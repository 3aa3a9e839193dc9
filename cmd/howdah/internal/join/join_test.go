package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

// api is the requests of a cluster, which answers each as answer says.
type api struct {
	t      *testing.T
	stored map[string]*nodecert.Request
	answer func(*nodecert.Request)
}

func (a *api) Create(_ context.Context, r *nodecert.Request) (*nodecert.Request, error) {
	if a.stored[r.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, r.Name)
	}
	a.stored[r.Name] = r.DeepCopy()
	return r, nil
}

func (a *api) Get(_ context.Context, name string) (*nodecert.Request, error) {
	a.answer(a.stored[name])
	return a.stored[name].DeepCopy(), nil
}

func (a *api) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("this one has no watches")
}

func condition(kind certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	return []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: "Test"}}
}

// TestATryThatFailsIsGoneOnWith holds that the key of a request that nobody has answered is kept, so that the next try has the answer; and that what is
// refused is asked for anew.
func TestATryThatFailsIsGoneOnWith(t *testing.T) {
	t.Parallel()
	authority, dir := pkitest.Authority(t), filepath.Join(t.TempDir(), "a", "node")
	var out bytes.Buffer
	c := &Config{NodeName: "n1", Dir: dir, Clock: clock.RealClock{}, Out: &out}
	cluster := &api{t: t, stored: map[string]*nodecert.Request{}, answer: func(*nodecert.Request) {}}
	info := bootstrap.Info{CA: authority.PEM()}
	file := []byte("HOWDAH_APISERVER=x\n")

	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.write(short, cluster, info, file); err == nil || !strings.Contains(err.Error(), "kubectl certificate approve node-csr-") {
		t.Fatalf("nobody answers: %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{keyFile}) {
		t.Errorf("it leaves %v", got)
	}
	if stat, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", stat, err)
	}
	if len(cluster.stored) != 1 {
		t.Fatalf("%d requests", len(cluster.stored))
	}

	cluster.answer = func(r *nodecert.Request) { r.Status.Conditions = condition(certificatesv1.CertificateDenied) }
	if err := c.write(t.Context(), cluster, info, file); err == nil || !strings.Contains(err.Error(), "was denied") {
		t.Fatalf("it is denied: %v", err)
	}
	if got := names(t, dir); len(got) != 0 || len(cluster.stored) != 1 {
		t.Errorf("it leaves %v, and %d requests", got, len(cluster.stored))
	}

	stranger := pkitest.Authority(t)
	for _, by := range []*pki.Authority{stranger, authority} {
		cluster.answer = func(r *nodecert.Request) {
			r.Status.Certificate = pkitest.Sign(t, by, r.Spec.Request, pkitest.Until(time.Now().Add(time.Hour)))
		}
		err := c.write(t.Context(), cluster, info, file)
		if by == stranger && (err == nil || !strings.Contains(err.Error(), "of no use")) || by == authority && err != nil {
			t.Fatalf("%v", err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"ca.crt", "node.pem", "nodeagent.env", "tls.crt", "tls.key"}) || len(cluster.stored) != 3 {
		t.Errorf("it leaves %v, and %d requests", got, len(cluster.stored))
	}
	if now, err := look(dir, "n1", []string{bootstrap.Pin(authority.Certificate)}, time.Now()); err != nil || !now.joined {
		t.Errorf("%+v, %v", now, err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// joined fills a folder as Run does.
func joined(t *testing.T, a *pki.Authority, node string, until time.Time) string {
	t.Helper()
	dir := t.TempDir()
	private, err := nodecert.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	r, err := nodecert.NewRequest(node, private)
	if err == nil {
		err = nodecert.Save(dir, pkitest.Sign(t, a, r.Spec.Request, pkitest.Until(until)), private)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, caFile), a.PEM(), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, SettingsFile), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLook(t *testing.T) {
	t.Parallel()
	a, b := pkitest.Authority(t), pkitest.Authority(t)
	later := time.Now().Add(time.Hour)
	with := func(dir string, change func(dir string) error) string {
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	pin := []string{bootstrap.Pin(a.Certificate)}
	for name, tt := range map[string]struct {
		dir  string
		pins []string
		want state
		err  string
	}{
		"nothing":         {dir: t.TempDir()},
		"no folder":       {dir: filepath.Join(t.TempDir(), "x")},
		"whole":           {dir: joined(t, a, "n1", later), pins: pin, want: state{joined: true}},
		"no pin":          {dir: joined(t, a, "n1", later), want: state{joined: true}},
		"ended":           {dir: joined(t, a, "n1", time.Now().Add(-time.Hour)), pins: pin, want: state{ended: true}},
		"without the end": {dir: with(joined(t, a, "n1", later), func(d string) error { return os.Remove(filepath.Join(d, SettingsFile)) })},
		"another node":    {dir: joined(t, a, "n2", later), err: `of "system:node:n2", not of "system:node:n1" (howdah reset`},
		"another cluster": {dir: joined(t, b, "n1", later), pins: pin, err: "the certificate of another cluster"},
		"no authority":    {dir: with(joined(t, a, "n1", later), func(d string) error { return os.Remove(filepath.Join(d, caFile)) }), err: "without its authority"},
		"of howdah pki": {dir: with(t.TempDir(), func(d string) error { return os.WriteFile(filepath.Join(d, "tls.crt"), nil, 0o600) }),
			err: "not of howdah join"},
		"broken": {dir: with(joined(t, a, "n1", later), func(d string) error { return os.WriteFile(filepath.Join(d, nodecert.File), nil, 0o600) }), err: "howdah reset"},
	} {
		got, err := look(tt.dir, "n1", tt.pins, time.Now())
		got.until = time.Time{}
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, tt.want, tt.err)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	dir := joined(t, a, "n1", time.Now().Add(time.Hour))
	var out bytes.Buffer
	if err := Forget(dir, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || strings.Count(out.String(), "removed ") != 5 {
		t.Errorf("%v, %v\n%s", err, names(t, dir), out.String())
	}
	made := t.TempDir()
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(made, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Forget(made, &out); err != nil || len(names(t, made)) != 3 {
		t.Errorf("of a folder of howdah pki %v are left, %v", names(t, made), err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	known := func(flag string) bool {
		return slices.Contains([]string{"apiserver", "max-pods", "node-name", "eviction-hard", "tls-dir"}, flag)
	}
	node := map[string]string{"node-name": "n1"}
	file, err := settings(map[string]string{"apiserver": "dns:///x:7443", "max-pods": "50", "eviction-hard": "memory.available<1Gi"}, node, known)
	if err != nil || !strings.HasSuffix(string(file), "\nHOWDAH_APISERVER=dns:///x:7443\nHOWDAH_EVICTION_HARD='memory.available<1Gi'\nHOWDAH_MAX_PODS=50\nHOWDAH_NODE_NAME=n1\n") {
		t.Errorf("%v\n%s", err, file)
	}
	for want, cluster := range map[string]map[string]string{
		"does not say where nodes reach": {"max-pods": "50"},
		`"nonsense" is no setting`:       {"apiserver": "x", "nonsense": "1"},
		`"tls-dir" is no setting`:        {"apiserver": "x", "tls-dir": "/x"},
		"more than a line":               {"apiserver": "x", "max-pods": "50\nHOWDAH_X=y"},
	} {
		if _, err := settings(cluster, node, known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", cluster, err, want)
		}
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	ours, theirs := pkitest.Authority(t), pkitest.Authority(t)
	serve := func(s pki.Subject) string {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pkitest.Certificate(t, ours, s)}, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { listener.Close(); <-done })
		return listener.Addr().String()
	}
	api := serve(pki.Subject{CommonName: "howdah:apiserver", Hosts: []string{"apiserver"}})
	other := serve(pki.Subject{CommonName: "howdah:gateway", Hosts: []string{"gateway"}})
	for name, tt := range map[string]struct {
		target string
		ca     []byte
		want   string
	}{
		"the API server":    {"dns:///" + api, ours.PEM(), ""},
		"another authority": {"dns:///" + api, theirs.PEM(), "unknown authority"},
		"somebody else":     {"dns:///" + other, ours.PEM(), "not apiserver"},
		"no port":           {"dns:///apiserver", ours.PEM(), "missing port"},
	} {
		err := reachable(t.Context(), tt.target, tt.ca)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestConfigReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), Config{Endpoint: "host", Pins: []string{"x"}, NodeName: "_"})
	for _, want := range []string{"--token: it is required", `"host" is not host:port`, `"x" is not sha256:`, `--node-name: "_"`, "--tls-dir is required"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	err = Run(t.Context(), Config{Token: "secret", NodeName: "n", Dir: "x"})
	for _, want := range []string{"not of the form", "ENDPOINT", "--discovery-token-unsafe-skip-ca-verification"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
