package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// authorityFolder is a folder of certificates whose authority is replaced.
type authorityFolder struct {
	t   *testing.T
	dir string
	now time.Time
}

func startAuthorityFolder(t *testing.T) *authorityFolder {
	f := &authorityFolder{t: t, dir: t.TempDir(), now: time.Now().Truncate(time.Second)}
	f.init()
	return f
}

func (f *authorityFolder) init() {
	f.t.Helper()
	if err := Init(f.dir, Options{Nodes: []string{"n1"}, Now: func() time.Time { return f.now }}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *authorityFolder) read(name string) []byte {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return data
}

// serves checks that everybody knows everybody, also one who still has what peers says: certificates and authorities from a step before. It returns what there is now.
func (f *authorityFolder) serves(step string, authorities int, peers map[string]peer) map[string]peer {
	f.t.Helper()
	all, err := List(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	now := map[string]peer{}
	roots := 0
	for _, e := range all {
		if e.Root {
			roots++
			continue
		}
		if _, err := tls.X509KeyPair(f.read(e.Role+"/tls.crt"), f.read(e.Role+"/tls.key")); err != nil {
			f.t.Errorf("%s: %s: %v", step, e.Role, err)
		}
		a, err := NewAuthorities(f.read(e.Role + "/ca.crt"))
		if err != nil || len(a.Certificates) != authorities {
			f.t.Fatalf("%s: %s trusts %d: %v", step, e.Role, len(a.Certificates), err)
		}
		now[e.Role] = peer{e.Certificate, a.Pool}
	}
	if roots != authorities {
		f.t.Errorf("%s: %d authorities are listed, want %d", step, roots, authorities)
	}
	for name, a := range now {
		for _, others := range []map[string]peer{now, peers} {
			for other, b := range others {
				if !a.trusts(b) || !b.trusts(a) {
					f.t.Errorf("%s: %s and %s do not know each other", step, name, other)
				}
			}
		}
	}
	f.kubeconfig(step, now["admin"])
	return now
}

// peer is a role at a time.
type peer struct {
	certificate *x509.Certificate
	authorities *x509.CertPool
}

func (p peer) trusts(other peer) bool {
	_, err := other.certificate.Verify(x509.VerifyOptions{Roots: p.authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

func (f *authorityFolder) kubeconfig(step string, admin peer) {
	f.t.Helper()
	config, err := clientcmd.Load(f.read("admin/kubeconfig"))
	if err != nil {
		f.t.Fatal(err)
	}
	if !bytes.Equal(config.Clusters["howdah"].CertificateAuthorityData, f.read("admin/ca.crt")) || !bytes.Equal(config.AuthInfos["kubernetes-admin"].ClientCertificateData, f.read("admin/tls.crt")) {
		f.t.Errorf("%s: the kubeconfig is another", step)
	}
	if config.Clusters["howdah"].Server != "https://127.0.0.1:6443" {
		f.t.Errorf("%s: the kubeconfig's server is %s", step, config.Clusters["howdah"].Server)
	}
}

// signs reports whether the key that controllers sign by is that of the first authority.
func (f *authorityFolder) signs() bool {
	f.t.Helper()
	key, err := DecodeKey(f.read("controllers/ca.key"))
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := NewAuthorities(f.read("controllers/ca.crt"))
	if err != nil {
		f.t.Fatal(err)
	}
	return key.PublicKey.Equal(a.Certificates[0].PublicKey)
}

// Whoever is a step behind is known by all others, and knows them; each step may come twice, and what howdah pki does at every start undoes none.
func TestReplaceAuthority(t *testing.T) {
	t.Parallel()
	f := startAuthorityFolder(t)
	first := f.serves("at first", 1, nil)
	for range 2 {
		if err := AddAuthority(f.dir, f.now); err != nil {
			t.Fatal(err)
		}
		f.init()
	}
	added := f.serves("added", 2, first)
	if added["n1"].certificate.SerialNumber.Cmp(first["n1"].certificate.SerialNumber) != 0 || !f.signs() {
		t.Error("what is only added signs already")
	}
	if _, err := RetireAuthorities(f.dir, f.now); err == nil || !strings.Contains(err.Error(), "does not sign yet") {
		t.Errorf("retired what signs: %v", err)
	}
	renewed, err := SwitchAuthority(f.dir, f.now)
	if err != nil || len(renewed) != len(controlPlane)+1 {
		t.Fatalf("%v: %v", renewed, err)
	}
	f.init()
	switched := f.serves("switched", 2, added)
	if first["n1"].trusts(switched["n1"]) || !f.signs() {
		t.Error("the one before signs still")
	}
	if _, err := os.Stat(filepath.Join(f.dir, nextKey)); !os.IsNotExist(err) {
		t.Errorf("the next one's key is there still: %v", err)
	}
	if n, err := RetireAuthorities(f.dir, f.now); n != 1 || err != nil {
		t.Fatalf("%d: %v", n, err)
	}
	f.init()
	retired := f.serves("retired", 1, switched)
	if retired["n1"].trusts(first["n1"]) {
		t.Error("the authority of the beginning is trusted still")
	}
	if n, err := RetireAuthorities(f.dir, f.now); n != 0 || err != nil {
		t.Errorf("retired again: %d, %v", n, err)
	}
}

// What was interrupted is finished when the step is taken again.
func TestReplaceAuthorityInterrupted(t *testing.T) {
	t.Parallel()
	f := startAuthorityFolder(t)
	if _, err := SwitchAuthority(f.dir, f.now); err == nil || !strings.Contains(err.Error(), "no authority was added") {
		t.Errorf("switched to nothing: %v", err)
	}
	// The next one is made, and nobody is told.
	d := folder{path: f.dir}
	if _, err := d.makeNext(f.now); err != nil {
		t.Fatal(err)
	}
	if _, err := SwitchAuthority(f.dir, f.now); err == nil || !strings.Contains(err.Error(), "not trusted yet") {
		t.Errorf("switched to one that nobody trusts: %v", err)
	}
	if err := AddAuthority(f.dir, f.now); err != nil {
		t.Fatal(err)
	}
	added := f.serves("added", 2, nil)
	// The key has taken its place, and nothing else.
	if err := os.WriteFile(filepath.Join(f.dir, "ca/ca.key"), f.read(nextKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AddAuthority(f.dir, f.now); err == nil || !strings.Contains(err.Error(), "signs already") {
		t.Errorf("added in the midst of switching: %v", err)
	}
	if _, err := SwitchAuthority(f.dir, f.now); err != nil {
		t.Fatal(err)
	}
	f.serves("switched", 2, added)
	if !f.signs() {
		t.Error("controllers sign by the one before")
	}
	// One is left that was not made anew.
	if err := os.WriteFile(filepath.Join(f.dir, "n1/tls.crt"), encodeCertificate(added["n1"].certificate.Raw), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RetireAuthorities(f.dir, f.now); err == nil || !strings.HasSuffix(err.Error(), "renewed first: n1") {
		t.Errorf("retired what a node's certificate is of: %v", err)
	}
	if err := AddAuthority(t.TempDir(), f.now); err == nil || !strings.Contains(err.Error(), "where its key is") {
		t.Errorf("without the key: %v", err)
	}
}

// An authority that is near its end is renewed with its key, and those beside it stay.
func TestOthersOutliveARenewal(t *testing.T) {
	t.Parallel()
	f := startAuthorityFolder(t)
	if err := AddAuthority(f.dir, f.now); err != nil {
		t.Fatal(err)
	}
	before, err := NewAuthorities(f.read("ca/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(authorityLifetime - time.Hour)
	f.init()
	after, err := NewAuthorities(f.read("n1/ca.crt"))
	if err != nil || len(after.Certificates) != 2 {
		t.Fatalf("%v: %d", err, len(after.Certificates))
	}
	if after.Certificates[0].Equal(before.Certificates[0]) || !after.Certificates[1].Equal(before.Certificates[1]) {
		t.Error("not the first alone is new")
	}
}
