package rpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
)

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := cluster(t), cluster(t)
	seen := make(chan rpc.User, 1)
	s := &service{get: func(ctx context.Context) error {
		user, ok := rpc.Peer(ctx)
		if !ok {
			t.Error("a call without a peer came through")
		}
		seen <- user
		return nil
	}}
	apiserver := overTLS(t, identity(t, ours, "apiserver"), s)
	node := overTLS(t, identity(t, ours, "node1"), s)

	scheduler := identity(t, ours, "scheduler")
	anonymous := scheduler.Client("apiserver")
	anonymous.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	foreign := scheduler.Client("apiserver") // trusts us, but bears their certificate
	foreign.GetClientCertificate = identity(t, theirs, "scheduler").Client("").GetClientCertificate
	old := scheduler.Client("apiserver")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12

	// In TLS 1.3 a client may learn by an alert or by a broken pipe that the
	// server refused it; the handler must not see the call.
	const refused = "code = Unavailable"
	tests := []struct {
		name, address string
		cfg           *tls.Config
		want          string // in the error; empty passes
	}{
		{"the scheduler", apiserver, scheduler.Client("apiserver"), ""},
		{"no certificate", apiserver, anonymous, refused},
		{"a certificate of another authority", apiserver, foreign, refused},
		{"a server of another authority", apiserver, identity(t, theirs, "scheduler").Client("apiserver"), "signed by unknown authority"},
		{"a server with another name", apiserver, scheduler.Client("controllers"), "not controllers"},
		{"TLS 1.2", apiserver, old, refused},
		{"a node by its organization", node, identity(t, ours, "apiserver").ClientOrganization("system:nodes"), ""},
		{"what is no node", apiserver, identity(t, ours, "apiserver").ClientOrganization("system:nodes"), "is not of system:nodes"},
		{"a node of another authority", node, identity(t, theirs, "apiserver").ClientOrganization("system:nodes"), "signed by unknown authority"},
		{"any name of ours", node, identity(t, ours, "node1").ClientAnyName(), ""},
		{"any name of another authority", node, identity(t, theirs, "node1").ClientAnyName(), "signed by unknown authority"},
	}
	for _, tt := range tests {
		err := get(t, tt.address, tt.cfg)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err != nil {
			continue
		}
		if user := <-seen; tt.name == "the scheduler" && (user.Name != "system:kube-scheduler" || user.In("system:nodes")) ||
			tt.name == "any name of ours" && (user.Name != "system:node:node1" || !user.In("system:nodes")) {
			t.Errorf("%s: the peer is %+v", tt.name, user)
		}
	}
	if len(seen) != 0 {
		t.Error("a call that was refused reached the handler")
	}
}

// TestNodeThatHasJoined holds that API servers reach a node whose certificate is a client's alone: the signer of nodes gives no other.
func TestNodeThatHasJoined(t *testing.T) {
	t.Parallel()
	ours := cluster(t)
	authority, err := tls.LoadX509KeyPair(filepath.Join(ours, "ca", "ca.crt"), filepath.Join(ours, "ca", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "system:node:n9", Organization: []string{"system:nodes"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca, err := os.ReadFile(filepath.Join(ours, "ca", "ca.crt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600)
	}
	if err == nil {
		err = nodecert.Save(dir, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := rpc.LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	node := overTLS(t, id, &service{get: func(context.Context) error { return nil }})
	for what, cfg := range map[string]*tls.Config{
		"an API server": identity(t, ours, "apiserver").ClientOrganization("system:nodes"), "the node itself": id.ClientAnyName(),
	} {
		if err := get(t, node, cfg); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := get(t, node, identity(t, ours, "apiserver").Client("n9")); err == nil {
		t.Error("it passes for a server with a name")
	}
}

func TestLoadIdentitySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"no folder":      {os.RemoveAll, "ca.crt"},
		"no key":         {func(dir string) error { return os.Remove(filepath.Join(dir, "tls.key")) }, "tls.key"},
		"no certificate": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o600) }, "holds no certificate"},
	}
	for name, tt := range tests {
		dir := filepath.Join(cluster(t), "scheduler")
		if err := tt.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := rpc.LoadIdentity(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// TestAuthorityIsReplaced replaces the cluster's authority under servers and clients that run: first everybody believes both, then everybody is of the new one, then
// nobody believes the old one.
func TestAuthorityIsReplaced(t *testing.T) {
	t.Parallel()
	before, after := cluster(t), cluster(t)
	address := overTLS(t, identity(t, before, "apiserver"), &service{get: func(context.Context) error { return nil }})
	scheduler, old := identity(t, before, "scheduler"), identity(t, before, "controllers")
	calls := func(who *rpc.Identity) error { return get(t, address, who.Client("apiserver")) }
	read := func(folder string) []byte {
		text, err := os.ReadFile(filepath.Join(folder, "ca", "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	believed := func(text []byte) {
		for _, role := range []string{"apiserver", "scheduler"} {
			if err := os.WriteFile(filepath.Join(before, role, "ca.crt"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	await := func(what string, is func() bool) {
		t.Helper()
		tick, late := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
		defer tick.Stop()
		for !is() {
			select {
			case <-late:
				t.Fatal(what)
			case <-tick.C:
			}
		}
	}
	stranger := identity(t, after, "scheduler")
	if err := calls(scheduler); err != nil {
		t.Fatal(err)
	}
	if err := calls(stranger); err == nil {
		t.Error("one of another authority is let in")
	}
	both := slices.Concat(read(before), read(after))
	believed(both)
	if err := os.WriteFile(filepath.Join(after, "scheduler", "ca.crt"), both, 0o600); err != nil {
		t.Fatal(err)
	}
	newcomer := identity(t, after, "scheduler") // has its certificate by the new authority, and believes both
	await("one of the new authority is let in", func() bool { return calls(newcomer) == nil })
	if err := calls(scheduler); err != nil {
		t.Errorf("one of the old authority, while both count: %v", err)
	}
	believed(read(after))
	await("one of the old authority, who believes the server, is not let in", func() bool { return calls(old) != nil })
	await("a server of the old authority is not believed", func() bool {
		err := calls(scheduler)
		return err != nil && strings.Contains(err.Error(), "signed by unknown authority")
	})
}
