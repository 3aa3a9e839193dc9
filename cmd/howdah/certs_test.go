package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/pki"
)

func TestCerts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := execute(t, "pki", "--out", dir, "--nodes", "n1"); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "certs", "check-expiration", "--dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 17 || strings.Join(strings.Fields(lines[0]), " ") != "CERTIFICATE EXPIRES RESIDUAL TIME CERTIFICATE AUTHORITY" {
		t.Fatalf("%s", out)
	}
	if admin := strings.Fields(lines[1]); admin[0] != "admin" || admin[6] != "364d" || admin[7] != "howdah-ca" {
		t.Errorf("%q", admin)
	}
	if ca := strings.Fields(lines[16]); ca[0] != "ca" || ca[6] != "9y" {
		t.Errorf("%q", ca)
	}
	var printed struct{ Certificates, CertificateAuthorities []expiration }
	if out, err = execute(t, "certs", "check-expiration", "--dir", dir, "-o", "json"); err != nil || json.Unmarshal([]byte(out), &printed) != nil ||
		len(printed.Certificates) != 13 || len(printed.CertificateAuthorities) != 1 || printed.Certificates[0].CAName != "howdah-ca" || printed.Certificates[0].ResidualSeconds < 360*24*3600 {
		t.Errorf("%v: %+v\n%s", err, printed, out)
	}
	if out, err = execute(t, "certs", "check-expiration", "--dir", dir, "-o", "yaml"); err != nil || !strings.Contains(out, "\n  name: n1\n") {
		t.Errorf("%v: %s", err, out)
	}

	kubeconfig := filepath.Join(dir, "copy")
	if out, err = execute(t, "certs", "renew", "admin", "n1", "--dir", dir, "--kubeconfig", kubeconfig); err != nil || !strings.Contains(out, "certificate of admin renewed\ncertificate of n1 renewed\n") {
		t.Errorf("%v: %s", err, out)
	}
	a, err1 := os.ReadFile(kubeconfig)
	b, err2 := os.ReadFile(filepath.Join(dir, "admin", "kubeconfig"))
	if err1 != nil || err2 != nil || string(a) != string(b) {
		t.Errorf("the copy differs: %v, %v", err1, err2)
	}
	if out, err = execute(t, "certs", "renew", "all", "--dir", dir); err != nil || strings.Count(out, "renewed\n") != 13 {
		t.Errorf("%v: %s", err, out)
	}
	for want, args := range map[string][]string{
		"name nothing beside it":     {"renew", "all", "n1", "--dir", dir},
		`no certificate of "n2"`:     {"renew", "n2", "--dir", dir},
		"no such file":               {"check-expiration", "--dir", filepath.Join(dir, "nothing")},
		`"table" is none of`:         {"check-expiration", "--dir", dir, "-o", "table"},
		"requires at least 1 arg(s)": {"renew", "--dir", dir},
		"no authority was added":     {"authority", "switch", "--dir", dir},
	} {
		if _, err := execute(t, append([]string{"certs"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestCertsAuthority takes the three steps, and lists what there is after each.
func TestCertsAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := execute(t, "pki", "--out", dir, "--nodes", "n1"); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "copy")
	for _, step := range []struct {
		name, says  string
		authorities int
	}{
		{"add", "is trusted beside the one that signs", 2},
		{"switch", "certificate of n1 renewed", 2},
		{"retire", "1 retired", 1},
	} {
		out, err := execute(t, "certs", "authority", step.name, "--dir", dir, "--kubeconfig", kubeconfig)
		if err != nil || !strings.Contains(out, step.says) {
			t.Fatalf("%s: %v: %s", step.name, err, out)
		}
		a, err1 := os.ReadFile(kubeconfig)
		b, err2 := os.ReadFile(filepath.Join(dir, "admin", "kubeconfig"))
		if err1 != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%s: the copy differs: %v, %v", step.name, err1, err2)
		}
		var printed struct{ Certificates, CertificateAuthorities []expiration }
		if out, err = execute(t, "certs", "check-expiration", "--dir", dir, "-o", "json"); err != nil || json.Unmarshal([]byte(out), &printed) != nil {
			t.Fatalf("%s: %v: %s", step.name, err, out)
		}
		if len(printed.CertificateAuthorities) != step.authorities || len(printed.Certificates) != 13 {
			t.Errorf("%s: %s", step.name, out)
		}
		for _, c := range printed.Certificates {
			if c.CAName == "" {
				t.Errorf("%s: nobody knows the authority of %s", step.name, c.Name)
			}
		}
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := pki.Init(dir, pki.Options{}); err != nil {
		t.Fatal(err)
	}
	entries, err := pki.List(filepath.Join(dir, "dns"))
	if err != nil {
		t.Fatal(err)
	}
	entries[0].Authority = nil
	var out strings.Builder
	if err := printExpiration(&out, "text", entries, time.Now().AddDate(2, 0, 0)); err != nil || !strings.Contains(out.String(), "<expired>") || !strings.Contains(out.String(), "<another>") || strings.Contains(out.String(), "CERTIFICATE AUTHORITY  ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
