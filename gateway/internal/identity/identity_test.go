package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  ed25519.PrivateKey
	cert *x509.Certificate
	own  *x509.CertPool // one: certificates are remembered as good by the pool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	a.cert = &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert = a.sign(a.cert, key.Public())
	a.own = x509.NewCertPool()
	a.own.AddCert(a.cert)
	return a
}

func (a *authority) pool() *x509.CertPool { return a.own }

func (a *authority) sign(template *x509.Certificate, key any) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// client is the connection of a client with such a subject.
func (a *authority) client(subject pkix.Name, edits ...func(*x509.Certificate)) *tls.ConnectionState {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: subject, SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, edit := range edits {
		edit(template)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{a.sign(template, a.key.Public())}}
}

func uids(values ...string) (all []pkix.AttributeTypeAndValue) {
	for _, value := range values {
		all = append(all, pkix.AttributeTypeAndValue{Type: uidAttribute, Value: value})
	}
	return all
}

func TestOf(t *testing.T) {
	t.Parallel()
	anonymous := metadata.MD{"howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}}
	ours, others := newAuthority(t), newAuthority(t)
	jane := pkix.Name{CommonName: "jane", Organization: []string{"ops", "devs"}}
	tests := []struct {
		name   string
		tls    *tls.ConnectionState
		header http.Header
		want   metadata.MD // nil is an error
	}{
		{"nothing", nil, nil, anonymous},
		{"certificate", ours.client(jane), nil, metadata.MD{"howdah-user": {"jane"}, "howdah-group": {"ops", "devs"}}},
		{"certificate of another authority", others.client(jane), nil, nil},
		{"certificate of another authority, and a token", others.client(jane), http.Header{"Authorization": {"Bearer abc"}}, metadata.MD{"authorization": {"Bearer abc"}}},
		{"certificate of another authority, and a password", others.client(jane), http.Header{"Authorization": {"Basic abc"}}, nil},
		{"certificate that is over", ours.client(jane, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), nil, nil},
		{"certificate of a server", ours.client(jane, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), nil, nil},
		{"certificate without a name", ours.client(pkix.Name{Organization: []string{"system:masters"}}), nil, anonymous},
		{"certificate with a name that is no header", ours.client(pkix.Name{CommonName: "ja\nne", Organization: []string{"grüppe"}}), nil, metadata.MD{"howdah-user-bin": {"ja\nne"}, "howdah-group-bin": {"grüppe"}}},
		{"certificate with a uid", ours.client(pkix.Name{CommonName: "jane", ExtraNames: uids("7")}), nil, metadata.MD{"howdah-user": {"jane"}, "howdah-uid": {"7"}}},
		{"certificate with two uids", ours.client(pkix.Name{CommonName: "jane", ExtraNames: uids("7", "8")}), nil, nil},
		{"token", nil, http.Header{"Authorization": {" bearer abc "}}, metadata.MD{"authorization": {"Bearer abc"}}},
		{"token after two spaces", nil, http.Header{"Authorization": {"Bearer  abc"}}, anonymous},
		{"certificate before token", ours.client(jane), http.Header{"Authorization": {"Bearer abc"}}, metadata.MD{"howdah-user": {"jane"}, "howdah-group": {"ops", "devs"}}},
		{"password", nil, http.Header{"Authorization": {"basic abc"}}, metadata.MD{
			"authorization": {"Basic abc"}, "howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}}},
		{"another scheme", nil, http.Header{"Authorization": {"Digest abc"}}, anonymous},
		{"impersonation", nil, http.Header{"Authorization": {"Bearer abc"}, "Impersonate-User": {"jürgen"}, "Impersonate-Group": {"a b", "c"}, "Impersonate-Uid": {"u"},
			"Impersonate-Extra-Acme.com%2fproject": {"x=y", "z"}}, metadata.MD{
			"authorization": {"Bearer abc"}, "howdah-as-user": {"j%C3%BCrgen"}, "howdah-as-group": {"a+b", "c"}, "howdah-as-uid": {"u"},
			"howdah-as-extra": {"acme.com%2Fproject=x%3Dy", "acme.com%2Fproject=z"}}},
		{"impersonation of a part", nil, http.Header{"Impersonate-Group": {"g"}}, metadata.MD{
			"howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}, "howdah-as-group": {"g"}}},
		{"impersonation by metadata", nil, http.Header{"Howdah-As-User": {"root"}, "Impersonate": {"root"}}, anonymous},
		{"empty token", nil, http.Header{"Authorization": {"Bearer "}}, anonymous},
		{"names of the client's own", nil, http.Header{"Howdah-User": {"root"}, "Howdah-Group": {"system:masters"}, "Grpc-Metadata-Howdah-User": {"root"}}, anonymous},
		{"token of a WebSocket", nil, http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWJj"}}, metadata.MD{"authorization": {"Bearer abc"}}},
		{"malformed token of a WebSocket", nil, http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.%"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			caller, err := Identifier{Clients: ours.pool}.Of(&http.Request{TLS: tt.tls, Header: tt.header})
			if (err != nil) != (tt.want == nil) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if warned := caller.Warning != ""; warned != (tt.name == "token after two spaces") {
				t.Errorf("warned: %q", caller.Warning)
			}
			got := caller.Metadata()
			if id := got["howdah-extra"]; tt.tls != nil && tt.want["authorization"] == nil && caller.User != Anonymous {
				if delete(got, "howdah-extra"); len(id) != 1 || !strings.HasPrefix(id[0], "authentication.kubernetes.io%2Fcredential-id=X509SHA256%3D") {
					t.Error(id)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestACertificateIsVerifiedOnceAConnection(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	state := ours.client(pkix.Name{CommonName: "jane"})
	r := (&http.Request{TLS: state}).WithContext(WithConnection(t.Context()))
	known := Identifier{Clients: ours.pool}
	for range 2 {
		if caller, err := known.Of(r); err != nil || caller.User != "jane" {
			t.Fatal(caller, err)
		}
		if caller, err := (Identifier{Clients: others.pool}).Of(r); err == nil {
			t.Fatal(caller)
		}
		state.PeerCertificates[0].Signature = nil // which nobody looks at again
	}
	c := &connection{until: map[*x509.CertPool]time.Time{}}
	c.remember(ours.pool(), []*x509.Certificate{state.PeerCertificates[0], ours.cert})
	if c.verified(ours.pool(), ours.cert.NotAfter.Add(time.Second)) {
		t.Error("the certificate is good for ever")
	}
}
