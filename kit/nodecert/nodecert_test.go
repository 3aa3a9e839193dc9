package nodecert_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/pki/pkitest"
	"howdah.dev/kit/rpc"
)

func newRequest(t *testing.T, node string) (r *nodecert.Request, key []byte) {
	t.Helper()
	key, err := nodecert.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if r, err = nodecert.NewRequest(node, key); err != nil {
		t.Fatal(err)
	}
	return r, key
}

func TestNewRequest(t *testing.T) {
	t.Parallel()
	r, key := newRequest(t, "n1")
	again, err := nodecert.NewRequest("n1", key)
	if err != nil || again.Name != r.Name || !strings.HasPrefix(r.Name, "node-csr-") {
		t.Errorf("%s, and again %s, %v", r.Name, again.Name, err)
	}
	other, err := nodecert.NewRequest("n2", key)
	if err != nil || other.Name == r.Name {
		t.Errorf("another node's is %s, %v", other.Name, err)
	}
	if r.Spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || !slices.Equal(r.Spec.Usages, []certificatesv1.KeyUsage{"digital signature", "client auth"}) {
		t.Errorf("%+v", r.Spec)
	}
	block, _ := pem.Decode(r.Spec.Request)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || asked.Subject.String() != (pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}).String() {
		t.Errorf("%v, %v", asked, err)
	}
	if _, err := nodecert.NewRequest("n1", []byte("nothing")); err == nil {
		t.Error("a request is made without a key")
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	a, dir := pkitest.Authority(t), t.TempDir()
	if _, err := nodecert.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), a.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a renewal
		r, key := newRequest(t, "n1")
		certificate := pkitest.Sign(t, a, r.Spec.Request, pkitest.Until(time.Now().Add(time.Hour)))
		if err := nodecert.Save(dir, certificate, key); err != nil {
			t.Fatal(err)
		}
		want, err := nodecert.Check(certificate, key, "n1", a.Pool(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got, err := nodecert.Load(dir)
		if err != nil || !got.Leaf.Equal(want.Leaf) {
			t.Errorf("%v, %v", got, err)
		}
		id, err := rpc.LoadIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		if pair := id.Certificate(); !pair.Leaf.Equal(want.Leaf) {
			t.Errorf("an identity of %v", pair.Leaf.Subject)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, nodecert.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for range 2 {
		if err := nodecert.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "ca.crt" {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), []byte("of howdah pki"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := nodecert.Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tls.key")); err != nil {
		t.Error("a file of others is gone")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	a, b := pkitest.Authority(t), pkitest.Authority(t)
	r, key := newRequest(t, "n1")
	_, otherKey := newRequest(t, "n1")
	good := pkitest.Sign(t, a, r.Spec.Request, pkitest.Until(time.Now().Add(time.Hour)))
	ended := pkitest.Sign(t, a, r.Spec.Request, pkitest.Until(time.Now().Add(-time.Hour)))
	for name, tt := range map[string]struct {
		certificate, key []byte
		node             string
		pool             *x509.CertPool
		want             string
	}{
		"good":              {good, key, "n1", a.Pool(), ""},
		"another node":      {good, key, "n2", a.Pool(), `of "system:node:n1", not of "system:node:n2"`},
		"another key":       {good, otherKey, "n1", a.Pool(), "private key does not match"},
		"another authority": {good, key, "n1", b.Pool(), "unknown authority"},
		"ended":             {ended, key, "n1", a.Pool(), "its time is over"},
		"nothing":           {nil, key, "n1", a.Pool(), "PEM"},
	} {
		_, err := nodecert.Check(tt.certificate, tt.key, tt.node, tt.pool, time.Now())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	leaf := &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(100 * time.Hour)}
	for part, hours := range map[float64]time.Duration{0: 70, 0.5: 80, 1: 90} {
		if got := nodecert.Due(leaf, part).Round(time.Second); !got.Equal(begin.Add(hours * time.Hour)) {
			t.Errorf("%v: %v", part, got)
		}
	}
}

// requests is an API with what the functions say.
type requests struct {
	create func(*nodecert.Request) (*nodecert.Request, error)
	get    func(name string) (*nodecert.Request, error)
	watch  func(metav1.ListOptions) (watch.Interface, error)
}

func (r requests) Create(_ context.Context, n *nodecert.Request) (*nodecert.Request, error) {
	return r.create(n)
}

func (r requests) Get(_ context.Context, name string) (*nodecert.Request, error) { return r.get(name) }

func (r requests) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return r.watch(o)
}

func TestAskFindsWhatWasAskedBefore(t *testing.T) {
	t.Parallel()
	first, key := newRequest(t, "n1")
	again, err := nodecert.NewRequest("n1", key)
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := newRequest(t, "n1")
	foreign.Name = first.Name
	exists := func(*nodecert.Request) (*nodecert.Request, error) {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "certificatesigningrequests"}, first.Name)
	}
	for name, tt := range map[string]struct {
		api  requests
		want string
	}{
		"a new one": {requests{create: func(r *nodecert.Request) (*nodecert.Request, error) { return r, nil }}, ""},
		"the same":  {requests{create: exists, get: func(string) (*nodecert.Request, error) { return first, nil }}, ""},
		"another's": {requests{create: exists, get: func(string) (*nodecert.Request, error) { return foreign, nil }}, "asks for something else"},
		"refused": {requests{create: func(*nodecert.Request) (*nodecert.Request, error) { return nil, apierrors.NewUnauthorized("no") }},
			"ask for a certificate: no"},
	} {
		got, err := nodecert.Ask(t.Context(), tt.api, again)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err == nil && got.Name != first.Name {
			t.Errorf("%s: %s", name, got.Name)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	with := func(change func(*nodecert.Request)) *nodecert.Request {
		r := &nodecert.Request{ObjectMeta: metav1.ObjectMeta{Name: "r", ResourceVersion: "5"}}
		change(r)
		return r
	}
	signed := with(func(r *nodecert.Request) { r.Status.Certificate = []byte("certificate") })
	condition := func(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) *nodecert.Request {
		return with(func(r *nodecert.Request) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: status, Reason: "Why", Message: "words"}}
		})
	}
	open := with(func(*nodecert.Request) {})
	events := func(events ...watch.Event) func(metav1.ListOptions) (watch.Interface, error) {
		return func(o metav1.ListOptions) (watch.Interface, error) {
			if o.FieldSelector != "metadata.name=r" || o.ResourceVersion != "5" {
				return nil, errors.New("it watches something else: " + o.String())
			}
			w := watch.NewFakeWithChanSize(len(events), false)
			for _, e := range events {
				w.Action(e.Type, e.Object)
			}
			w.Stop() // what is in the channel is still read
			return w, nil
		}
	}
	never := func(string) (*nodecert.Request, error) { return nil, errors.New("away") }
	for name, tt := range map[string]struct {
		from *nodecert.Request
		api  requests
		want string // a part of the error; empty: the certificate
	}{
		"signed before":       {signed, requests{}, ""},
		"signed meanwhile":    {open, requests{watch: events(watch.Event{Type: watch.Modified, Object: condition("Approved", "True")}, watch.Event{Type: watch.Modified, Object: signed}), get: never}, ""},
		"the watch was lost":  {open, requests{watch: events(), get: func(string) (*nodecert.Request, error) { return signed, nil }}, ""},
		"no watch at all":     {open, requests{watch: func(metav1.ListOptions) (watch.Interface, error) { return nil, errors.New("no") }, get: func(string) (*nodecert.Request, error) { return signed, nil }}, ""},
		"denied":              {open, requests{watch: events(watch.Event{Type: watch.Modified, Object: condition("Denied", "")}), get: never}, "request r was denied: Why: words"},
		"failed":              {condition("Failed", "True"), requests{}, "could not be signed: Why: words"},
		"not denied any more": {condition("Denied", "False"), requests{watch: events(watch.Event{Type: watch.Modified, Object: signed}), get: never}, ""},
		"gone":                {open, requests{watch: events(watch.Event{Type: watch.Deleted, Object: open}), get: never}, "gone and was not answered"},
		"gone unseen": {open, requests{watch: events(), get: func(string) (*nodecert.Request, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "r")
		}}, "gone and was not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := nodecert.Await(t.Context(), tt.api, tt.from, clock.RealClock{})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if err == nil && string(got) != "certificate" {
				t.Errorf("%q", got)
			}
			if _, refused := errors.AsType[nodecert.Refusal](err); refused != (strings.Contains(tt.want, "Why")) {
				t.Errorf("%v: refused %t", err, refused)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nodecert.Await(ctx, requests{watch: events(), get: never}, open, clock.RealClock{}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "request r is not answered") {
		t.Errorf("cut off: %v", err)
	}
}
