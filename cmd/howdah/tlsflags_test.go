package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"howdah.dev/kit/pki"
)

// TestTLSFlags shows clients the certificate of the name that they ask for.
func TestTLSFlags(t *testing.T) {
	t.Parallel()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	issue := func(name string, hosts ...string) string {
		t.Helper()
		pair, err := a.Issue(pki.Subject{CommonName: name, Hosts: hosts}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		for path, text := range map[string][]byte{cert: pair.Certificate, key: pair.Key} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert + "," + key
	}
	own, _ := tls.LoadX509KeyPair(split(issue("own", "own")))
	base := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }}
	set := func(arguments ...string) (*tls.Config, error) {
		t.Helper()
		var flags tlsFlags
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.flags(f)
		flags.byName(f)
		if err := f.Parse(arguments); err != nil {
			t.Fatal(err)
		}
		return flags.server(base)
	}
	shown := func(c *tls.Config, name string) string {
		t.Helper()
		got, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.Subject.CommonName
	}

	c, err := set()
	if err != nil || shown(c, "x") != "own" || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("without flags: %s, %v", shown(c, "x"), err)
	}
	cert, key := split(issue("main", "api.example.com"))
	c, err = set("--tls-cert-file", cert, "--tls-private-key-file", key, "--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"--tls-sni-cert-key", issue("own-names", "a.example.org", "*.inside.example.org"), "--tls-sni-cert-key", issue("given", "unused.example.org")+":b.example.org,*.example.net,x.inside.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if c.MinVersion != tls.VersionTLS13 || len(c.CipherSuites) != 2 {
		t.Errorf("version %x, suites %x", c.MinVersion, c.CipherSuites)
	}
	for name, want := range map[string]string{
		"": "main", "api.example.com": "main", "other.example.org": "main", "a.example.org": "own-names", "A.Example.org.": "own-names", "y.inside.example.org": "own-names",
		"x.inside.example.org": "given", "b.example.org": "given", "z.example.net": "given", "y.z.example.net": "main", "unused.example.org": "main",
	} {
		if got := shown(c, name); got != want {
			t.Errorf("who asks for %q is shown %s, want %s", name, got, want)
		}
	}
	for want, arguments := range map[string][]string{
		"--tls-min-version: unknown tls version":                         {"--tls-min-version=TLS1.3"},
		"--tls-cipher-suites: Cipher suite NONE not supported":           {"--tls-cipher-suites=NONE"},
		"--tls-cert-file and --tls-private-key-file go together":         {"--tls-cert-file", cert},
		"--tls-cert-file: open " + filepath.Join(dir, "none"):            {"--tls-cert-file", filepath.Join(dir, "none"), "--tls-private-key-file", key},
		"--tls-sni-cert-key: tls: found a certificate rather than a key": {"--tls-sni-cert-key", cert + "," + cert},
	} {
		if _, err := set(arguments...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", arguments, err, want)
		}
	}
}

func split(pair string) (cert, key string) {
	cert, key, _ = strings.Cut(pair, ",")
	return cert, key
}
