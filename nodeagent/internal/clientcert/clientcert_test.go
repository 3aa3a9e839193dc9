package clientcert

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

// bench is a node that has joined, in a bubble of time.
type bench struct {
	*Keeper
	t         *testing.T
	dir       string
	client    *object.Client
	authority *pki.Authority
	reg       *prometheus.Registry
	stop      func()
}

// inBubble runs a test with a node whose certificate lasts for 100 hours from now, and is due after 80.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, client := objecttest.Start(t)
		authority := pkitest.Authority(t)
		b := &bench{t: t, dir: dir, client: client, authority: authority}
		if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := nodecert.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		asked, err := nodecert.NewRequest("n1", first)
		if err != nil {
			t.Fatal(err)
		}
		if err := nodecert.Save(dir, b.sign(asked, "system:node:n1"), first); err != nil {
			t.Fatal(err)
		}
		b.start()
		defer func() { b.stop() }()
		test(b)
	})
}

func (b *bench) start() {
	b.t.Helper()
	b.reg = prometheus.NewRegistry()
	var err error
	if b.Keeper, err = New(Config{NodeName: "n1", Dir: b.dir, Client: b.client, Clock: clock.RealClock{}, Registerer: b.reg, Random: func() float64 { return 0.5 }}); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Run(ctx); !errors.Is(err, context.Canceled) {
			b.t.Errorf("Run ended: %v", err)
		}
	}()
	b.stop = func() { cancel(); <-done }
}

func (b *bench) sign(r *nodecert.Request, name string) []byte {
	b.t.Helper()
	return pkitest.Sign(b.t, b.authority, r.Spec.Request, func(c *x509.Certificate) { c.Subject.CommonName = name })
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// open are the requests that nobody has answered; the test fails if they are not so many.
func (b *bench) open(want int) []*nodecert.Request {
	b.t.Helper()
	synctest.Wait()
	all, _, err := object.For(b.client, object.CertificateSigningRequest).List(b.t.Context(), "", metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var open []*nodecert.Request
	for _, r := range all {
		if len(r.Status.Conditions) == 0 {
			open = append(open, r)
		}
	}
	if len(open) != want {
		b.t.Fatalf("%d open requests, want %d", len(open), want)
	}
	return open
}

func (b *bench) answer(r *nodecert.Request, condition certificatesv1.RequestConditionType, certificate []byte) {
	b.t.Helper()
	r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: "Test", Message: "it is a test"}}
	r.Status.Certificate = certificate
	if _, err := object.For(b.client, object.CertificateSigningRequest).UpdateStatus(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// begins is when the certificate in the folder does.
func (b *bench) begins() time.Time {
	b.t.Helper()
	pair, err := nodecert.Load(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return pair.Leaf.NotBefore
}

func (b *bench) metric(name string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	b.t.Fatalf("no metric %s", name)
	return 0
}

func TestACertificateIsReplacedBeforeItEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		first := b.begins()
		if left := b.metric("kubelet_certificate_manager_client_ttl_seconds"); left != (100 * time.Hour).Seconds() {
			b.t.Errorf("it lasts %v s", left)
		}
		b.pass(79 * time.Hour)
		b.open(0)
		b.pass(2 * time.Hour)
		r := b.open(1)[0]
		if r.Spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" {
			b.t.Errorf("%+v", r.Spec)
		}
		if !b.begins().Equal(first) {
			b.t.Error("the certificate is another one before it is signed")
		}
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n1"))
		if now := b.begins(); !now.After(first) {
			b.t.Errorf("it begins at %s, as before", now)
		}
		if left := b.metric("kubelet_certificate_manager_client_ttl_seconds"); left != (100 * time.Hour).Seconds() {
			b.t.Errorf("the next lasts %v s", left)
		}
		b.stop()
		b.start()
		b.pass(79 * time.Hour)
		b.open(0)
		if n := b.metric("kubelet_certificate_manager_client_expiration_renew_errors"); n != 0 {
			b.t.Errorf("%v errors", n)
		}
	})
}

// TestAnotherAuthoritySigns: the certificate is replaced once another authority stands before its own, long before it is due. A signer who does not know of it yet
// is asked again, less and less often.
func TestAnotherAuthoritySigns(t *testing.T) {
	inBubble(t, func(b *bench) {
		old, next := b.authority, pkitest.Authority(b.t)
		trust := func(authorities ...*pki.Authority) {
			b.t.Helper()
			var text []byte
			for _, a := range authorities {
				text = append(text, a.PEM()...)
			}
			if err := os.WriteFile(filepath.Join(b.dir, "ca.crt"), text, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		trust(old, next)
		b.pass(time.Hour)
		b.open(0)

		trust(next, old)
		b.pass(2 * time.Minute)
		r := b.open(1)[0]
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n1"))
		b.pass(30 * time.Second)
		b.open(0)
		b.pass(time.Minute)
		r = b.open(1)[0]
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n1"))
		b.pass(90 * time.Second)
		b.open(0)

		b.authority = next
		b.pass(time.Minute)
		r = b.open(1)[0]
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n1"))
		trust(next)
		b.pass(79 * time.Hour)
		b.open(0)
	})
}

func TestWhatIsRefusedIsAskedForAnew(t *testing.T) {
	inBubble(t, func(b *bench) {
		first := b.begins()
		b.pass(81 * time.Hour)
		b.answer(b.open(1)[0], certificatesv1.CertificateDenied, nil)
		b.pass(lastPause)
		r := b.open(1)[0]
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n2")) // somebody else's
		b.pass(lastPause)
		r = b.open(1)[0]
		if !b.begins().Equal(first) {
			b.t.Error("the certificate of somebody else is kept")
		}
		b.pass(time.Hour) // nobody answers: the same request goes on
		if again := b.open(1)[0]; again.Name != r.Name {
			b.t.Errorf("another request %s beside %s", again.Name, r.Name)
		}
		b.answer(r, certificatesv1.CertificateApproved, b.sign(r, "system:node:n1"))
		b.pass(lastPause)
		if !b.begins().After(first) {
			b.t.Error("the certificate is not replaced")
		}
		if n := b.metric("kubelet_certificate_manager_client_expiration_renew_errors"); n < 3 {
			b.t.Errorf("%v errors", n)
		}
	})
}

func TestOnlyAFolderOfAJoinedNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := Config{NodeName: "n1", Dir: dir, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "was not made by howdah join") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, nodecert.File), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), nodecert.File) {
		t.Errorf("a broken file: %v", err)
	}
}
