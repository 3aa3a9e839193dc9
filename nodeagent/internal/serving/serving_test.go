package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// signer plays the one of the cluster, by its documented rules.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{certificate, key}
}

// sign answers with a certificate that lasts so long from now, or with what is wrong with the request.
func (s *signer) sign(r *request, lasts time.Duration) ([]byte, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("it is not PEM of a request")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := asked.CheckSignature(); err != nil {
		return nil, err
	}
	switch {
	case r.Spec.SignerName != "kubernetes.io/kubelet-serving":
		return nil, fmt.Errorf("signer %s", r.Spec.SignerName)
	case !slices.Equal(asked.Subject.Organization, []string{"system:nodes"}) || !strings.HasPrefix(asked.Subject.CommonName, "system:node:"):
		return nil, fmt.Errorf("subject %s", asked.Subject)
	case len(asked.DNSNames)+len(asked.IPAddresses) == 0 || len(asked.EmailAddresses)+len(asked.URIs) > 0:
		return nil, errors.New("names and addresses are required, and nothing else")
	case !slices.Equal(r.Spec.Usages, []certificatesv1.KeyUsage{"digital signature", "server auth"}):
		return nil, fmt.Errorf("usages %v", r.Spec.Usages)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses,
		NotBefore: time.Now(), NotAfter: time.Now().Add(lasts), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, s.certificate, asked.PublicKey, s.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// bench is a keeper in a bubble of time.
type bench struct {
	*Keeper
	t      *testing.T
	dir    string
	server *objecttest.Server
	client *object.Client
	signer *signer
	own    *tls.Certificate // shown while there is no other
	cas    string           // the file of the authorities
	reg    *prometheus.Registry
	stop   func()
}

func inBubble(t *testing.T, test func(b *bench)) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server, client := objecttest.Start(t)
		b := &bench{t: t, dir: filepath.Join(dir, "pki"), server: server, client: client, signer: newSigner(t), own: &tls.Certificate{Leaf: &x509.Certificate{}}, cas: filepath.Join(dir, "ca.crt")}
		b.trust(b.signer)
		b.start()
		defer func() { b.stop() }()
		test(b)
	})
}

// trust has these be the cluster's authorities, of which the first signs.
func (b *bench) trust(authorities ...*signer) {
	b.t.Helper()
	var text []byte
	for _, a := range authorities {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})...)
	}
	if err := os.WriteFile(b.cas, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// start begins a life of the agent.
func (b *bench) start() {
	b.t.Helper()
	authorities, err := pki.LoadBundle(b.cas)
	if err != nil {
		b.t.Fatal(err)
	}
	b.reg = prometheus.NewRegistry()
	b.Keeper = New(Config{
		NodeName: "n1", Dir: b.dir, Client: b.client, Clock: clock.RealClock{}, Registerer: b.reg, Random: func() float64 { return 0.5 }, Authorities: authorities,
		Otherwise: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.own, nil },
	})
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

func nodeWith(addresses ...corev1.NodeAddress) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: addresses}}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

// at tells of the node's addresses, and waits until nothing more comes of it.
func (b *bench) at(ips ...string) {
	b.t.Helper()
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"}}
	for _, ip := range ips {
		addresses = append(addresses, internal(ip))
	}
	b.Update(nodeWith(addresses...))
	synctest.Wait()
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// asked returns the requests in their order; the test fails if they are not so many.
func (b *bench) asked(want int) []*request {
	b.t.Helper()
	synctest.Wait()
	all, _, err := object.For(b.client, object.CertificateSigningRequest).List(b.t.Context(), "", metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(all) != want {
		b.t.Fatalf("%d requests, want %d", len(all), want)
	}
	slices.SortFunc(all, func(x, y *request) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	return all
}

// last is the newest of so many requests.
func (b *bench) last(of int) *request { b.t.Helper(); return b.asked(of)[of-1] }

// answer writes what becomes of a request.
func (b *bench) answer(r *request, condition certificatesv1.RequestConditionType, certificate []byte) {
	b.t.Helper()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: condition, Status: corev1.ConditionTrue, Reason: "Test", Message: "it is a test"})
	r.Status.Certificate = certificate
	if _, err := object.For(b.client, object.CertificateSigningRequest).UpdateStatus(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// approve has a request signed for so long.
func (b *bench) approve(r *request, lasts time.Duration) {
	b.t.Helper()
	certificate, err := b.signer.sign(r, lasts)
	if err != nil {
		b.t.Fatalf("the signer refuses: %v", err)
	}
	b.answer(r, certificatesv1.CertificateApproved, certificate)
}

// shows returns the certificate that clients see; nil where it is the node's own.
func (b *bench) shows() *x509.Certificate {
	b.t.Helper()
	c, err := b.Certificate(&tls.ClientHelloInfo{})
	if err != nil {
		b.t.Fatal(err)
	}
	if c == b.own {
		return nil
	}
	return c.Leaf
}

func (b *bench) metric(name string) *dto.Metric {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0]
		}
	}
	b.t.Fatalf("no metric %s", name)
	return nil
}

func (b *bench) errors() float64 {
	b.t.Helper()
	return b.metric("kubelet_server_expiration_renew_errors").GetCounter().GetValue()
}

func (b *bench) ttl() float64 {
	b.t.Helper()
	return b.metric("kubelet_certificate_manager_server_ttl_seconds").GetGauge().GetValue()
}

// A certificate's life: asked for, approved hours later, shown, kept over a restart, and replaced before it ends, while the old one is shown.
func TestRotation(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.asked(0) // nobody knows yet where the node is
		b.Update(nodeWith(corev1.NodeAddress{Type: corev1.NodeHostName, Address: "n1"}))
		b.Update(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{internal("192.0.2.2")}}})
		b.asked(0)
		b.at("192.0.2.1")
		if b.shows() != nil || !math.IsInf(b.ttl(), 1) {
			b.t.Errorf("before it is approved: %v, %v s", b.shows(), b.ttl())
		}
		b.pass(5 * time.Hour)
		b.approve(b.last(1), 10*time.Hour)
		first := b.shows()
		if first == nil || first.Subject.String() != "CN=system:node:n1,O=system:nodes" || !slices.Equal(first.DNSNames, []string{"n1"}) || len(first.IPAddresses) != 1 || first.IPAddresses[0].String() != "192.0.2.1" {
			b.t.Fatalf("once it is approved: %+v", first)
		}
		if left := b.ttl(); left != (10 * time.Hour).Seconds() {
			b.t.Errorf("it lasts %v s", left)
		}
		if info, err := os.Stat(filepath.Join(b.dir, fileName)); err != nil || info.Mode().Perm() != 0o600 {
			b.t.Errorf("the file: %v, %v", info, err)
		}

		b.stop()
		b.start()
		b.at("192.0.2.1")
		b.asked(1)
		if now := b.shows(); now == nil || !now.Equal(first) {
			b.t.Errorf("after a restart: %v", now)
		}

		b.pass(8*time.Hour - time.Second) // 80 % of its time
		b.asked(1)
		b.pass(time.Second)
		second := b.last(2)
		if now := b.shows(); now == nil || !now.Equal(first) {
			b.t.Errorf("while another one is asked for: %v", now)
		}
		b.pass(time.Hour)
		b.approve(second, 10*time.Hour)
		if now := b.shows(); now == nil || now.Equal(first) {
			b.t.Errorf("another one is there: %v", now)
		}
		if lived := b.metric("kubelet_certificate_manager_server_rotation_seconds").GetHistogram(); lived.GetSampleCount() != 1 || lived.GetSampleSum() != (9*time.Hour).Seconds() {
			b.t.Errorf("it lived: %v", lived)
		}

		// Nobody approves the third one: what has ended is shown no more.
		b.pass(10 * time.Hour)
		b.asked(3)
		if b.shows() != nil || b.ttl() != 0 {
			b.t.Errorf("once it has ended: %v, %v s", b.shows(), b.ttl())
		}
		if b.errors() != 0 {
			b.t.Errorf("%v errors", b.errors())
		}
	})
}

// What the node says of itself changes: a certificate that does not say it is replaced, and a request that does not is left.
func TestAddressesChange(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.at("192.0.2.1")
		b.pass(time.Minute)
		b.at("192.0.2.1", "fd00::1")
		b.pass(time.Minute)
		b.at("fd00::1", "192.0.2.1") // the same in another order
		b.asked(2)
		b.approve(b.last(2), time.Hour)
		b.at("192.0.2.1") // it may say more
		b.asked(2)
		b.at()
		b.asked(2)
		b.pass(time.Minute)
		b.at("192.0.2.7")
		if now := b.shows(); now == nil || len(now.IPAddresses) != 2 {
			b.t.Errorf("while another one is asked for: %v", now)
		}
		b.approve(b.last(3), time.Hour)
		if now := b.shows(); now == nil || now.IPAddresses[0].String() != "192.0.2.7" {
			b.t.Errorf("after it: %v", now)
		}
	})
}

// Refusals are not asked again at once, and an API that is away is.
func TestRefusals(t *testing.T) {
	foreign := newSigner(t)
	for name, refuse := range map[string]func(b *bench, r *request){
		"denied":    func(b *bench, r *request) { b.answer(r, certificatesv1.CertificateDenied, nil) },
		"failed":    func(b *bench, r *request) { b.answer(r, certificatesv1.CertificateFailed, nil) },
		"no PEM":    func(b *bench, r *request) { b.answer(r, certificatesv1.CertificateApproved, []byte("yes")) },
		"has ended": func(b *bench, r *request) { b.approve(r, 0) },
		"of another key": func(b *bench, r *request) {
			other, _, err := newRequest(*b.template)
			if err != nil {
				b.t.Fatal(err)
			}
			certificate, err := foreign.sign(other, time.Hour)
			if err != nil {
				b.t.Fatal(err)
			}
			b.answer(r, certificatesv1.CertificateApproved, certificate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.at("192.0.2.1")
				refuse(b, b.last(1))
				if b.errors() != 1 || b.shows() != nil {
					b.t.Errorf("%v errors, shown %v", b.errors(), b.shows())
				}
				b.pass(refusedPause - time.Second)
				b.asked(1)
				b.pass(time.Second)
				b.approve(b.last(2), time.Hour)
				if b.shows() == nil {
					b.t.Error("it is not shown")
				}
			})
		})
	}
	t.Run("away", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			away := 3
			b.server.Intercept = func(w objecttest.Write) error {
				if w.Resource == "certificatesigningrequests" && w.Verb == "create" && away > 0 {
					away--
					return apierrors.NewInternalError(errors.New("injected"))
				}
				return nil
			}
			b.at("192.0.2.1")
			b.asked(0)
			b.pass(firstPause + 2*firstPause - time.Second)
			if b.errors() != 2 {
				b.t.Errorf("%v errors", b.errors())
			}
			b.pass(time.Second + 4*firstPause)
			b.approve(b.last(1), time.Hour)
			if b.shows() == nil {
				b.t.Error("it is not shown")
			}
		})
	})
	t.Run("gone", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.at("192.0.2.1")
			if err := object.For(b.client, object.CertificateSigningRequest).Delete(b.t.Context(), "", b.last(1).Name, metav1.DeleteOptions{}); err != nil {
				b.t.Fatal(err)
			}
			b.pass(firstPause)
			b.approve(b.last(1), time.Hour)
			if b.shows() == nil || b.errors() != 1 {
				b.t.Errorf("shown %v, %v errors", b.shows(), b.errors())
			}
		})
	})
}

// ending is an API whose watches end, the first time, before anything is heard by them.
type ending struct {
	*objecttest.Server
	watched atomic.Int32
}

func (e *ending) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	if e.watched.Add(1) == 1 {
		return stream.Send(&apiv1.WatchResponse{ContentType: object.ContentType})
	}
	return e.Server.Watch(r, stream)
}

// serve gives the bench the API's client.
func (e *ending) serve(b *bench) {
	listener, server := rpc.ListenInMemory(), rpc.NewServer(nil, prometheus.NewRegistry())
	apiv1.RegisterObjectServiceServer(server, e)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeUntil(ctx, listener)
	}()
	conn, err := listener.Dial(rpc.User{Name: "test", Groups: []string{"system:masters"}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		cancel()
		_ = conn.Close()
		server.Server.Stop()
		<-done
	})
	b.client = object.NewClient(conn, "test")
}

// An answer that comes while nobody watches is seen with the next look, and one after it by the next watch.
func TestWatchEnds(t *testing.T) {
	for name, later := range map[string]bool{"between": false, "by the next": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.stop()
				e := &ending{Server: b.server}
				e.serve(b)
				b.start()
				b.at("192.0.2.1")
				if later {
					b.pass(firstPause)
				}
				b.approve(b.last(1), time.Hour)
				if later != (b.shows() != nil) {
					b.t.Errorf("at once it shows %v", b.shows())
				}
				b.pass(firstPause)
				if b.shows() == nil || b.errors() != 0 {
					b.t.Errorf("it shows %v after %v errors", b.shows(), b.errors())
				}
			})
		})
	}
}

// A file that says nothing is replaced.
func TestBrokenFile(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.stop()
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.dir, fileName), []byte("half"), 0o600); err != nil {
			b.t.Fatal(err)
		}
		b.start()
		b.at("192.0.2.1")
		b.approve(b.last(1), time.Hour)
		kept, err := load(b.dir)
		if err != nil || kept == nil || !kept.Leaf.Equal(b.shows()) {
			b.t.Errorf("the file: %v, %v", kept, err)
		}
	})
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addresses []corev1.NodeAddress
		names     []string
		ips       []string
	}{
		"none":          {nil, []string{"n1"}, nil},
		"names alone":   {[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "host"}}, []string{"host", "n1"}, nil},
		"of each type":  {[]corev1.NodeAddress{{Type: corev1.NodeExternalDNS, Address: "n1.example.com"}, {Type: corev1.NodeInternalDNS, Address: "n1.internal"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, internal("192.0.2.1")}, []string{"n1", "n1.example.com", "n1.internal"}, []string{"192.0.2.1", "203.0.113.1"}},
		"twice":         {[]corev1.NodeAddress{internal("192.0.2.1"), {Type: corev1.NodeExternalIP, Address: "192.0.2.1"}, internal("fd00::1")}, []string{"n1"}, []string{"192.0.2.1", "fd00::1"}},
		"a hostname":    {[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "192.0.2.9"}}, []string{"n1"}, []string{"192.0.2.9"}},
		"no addresses":  {[]corev1.NodeAddress{internal(""), internal("here"), {Type: corev1.NodeInternalDNS}}, []string{"n1"}, nil},
		"IPv4 in IPv6":  {[]corev1.NodeAddress{internal("::ffff:192.0.2.1"), internal("192.0.2.1")}, []string{"n1"}, []string{"192.0.2.1"}},
		"another order": {[]corev1.NodeAddress{internal("192.0.2.10"), internal("192.0.2.2")}, []string{"n1"}, []string{"192.0.2.2", "192.0.2.10"}},
	} {
		got, ok := TemplateOf(nodeWith(c.addresses...))
		want := Template{CommonName: "system:node:n1", DNSNames: c.names}
		for _, ip := range c.ips {
			want.Addresses = append(want.Addresses, netip.MustParseAddr(ip))
		}
		if !got.equal(want) || ok != (len(c.ips) > 0) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	want := Template{CommonName: "system:node:n1", DNSNames: []string{"n1"}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	leaf := func(change func(*x509.Certificate)) *x509.Certificate {
		c := &x509.Certificate{
			Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, DNSNames: []string{"n1", "more"},
			IPAddresses: []net.IP{{192, 0, 2, 1}, {192, 0, 2, 2}},
		}
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		want   string
	}{
		"more":         {func(*x509.Certificate) {}, ""},
		"another name": {func(c *x509.Certificate) { c.Subject.CommonName = "system:node:n2" }, `its name is "system:node:n2"`},
		"no group":     {func(c *x509.Certificate) { c.Subject.Organization = nil }, "its organization is"},
		"a name less":  {func(c *x509.Certificate) { c.DNSNames = c.DNSNames[1:] }, "it lacks the name n1"},
		"no address":   {func(c *x509.Certificate) { c.IPAddresses = c.IPAddresses[1:] }, "it lacks the address 192.0.2.1"},
	} {
		err := want.check(leaf(c.change))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAnotherAuthoritySigns: once another authority stands before the certificate's own, another certificate is asked for, long before it is due.
func TestAnotherAuthoritySigns(t *testing.T) {
	inBubble(t, func(b *bench) {
		old, next := b.signer, newSigner(b.t)
		b.at("10.0.0.1")
		b.approve(b.last(1), 100*time.Hour)
		b.trust(old, next)
		b.pass(time.Hour)
		b.asked(1)
		b.trust(next, old)
		b.signer = next
		b.pass(2 * time.Minute)
		b.approve(b.last(2), 100*time.Hour)
		if err := b.shows().CheckSignatureFrom(next.certificate); err != nil {
			b.t.Errorf("what is shown is not by the next authority: %v", err)
		}
		b.trust(next)
		b.pass(60 * time.Hour)
		b.asked(2)
	})
}
