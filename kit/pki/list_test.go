package pki

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestRenew(t *testing.T) {
	t.Parallel()
	dir, start := t.TempDir(), time.Now().Truncate(time.Second)
	options := Options{Nodes: []string{"n1"}, Hosts: map[string][]string{"n1": {"192.0.2.7"}}, AdminServer: "https://api.example:6443", Now: func() time.Time { return start }}
	if err := Init(dir, options); err != nil {
		t.Fatal(err)
	}
	before, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if last := before[len(before)-1]; last.Role != "ca" || !last.Root || len(before) != len(controlPlane)+2 {
		t.Fatalf("%d certificates, the last of %s", len(before), last.Role)
	}
	later := start.Add(100 * time.Hour)
	for _, tt := range []struct {
		roles, want []string
		end         time.Time
	}{
		{[]string{"n1", "admin", "n1"}, []string{"admin", "n1"}, later.Add(leafLifetime)},
		{nil, []string{"admin", "apiserver", "controllers", "dns", "federation", "gateway", "ingress", "logs", "metrics", "n1", "postgres", "prometheus", "scheduler"}, later.Add(time.Hour).Add(leafLifetime)},
	} {
		got, err := Renew(dir, tt.roles, tt.end.Add(-leafLifetime))
		if err != nil || !slices.Equal(got, tt.want) {
			t.Fatalf("%v: %v, %v", tt.roles, got, err)
		}
		after, err := List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range after {
			old := before[i]
			if e.Role != old.Role || e.Root != old.Root || (e.Authority == nil) != e.Root {
				t.Errorf("%+v", e)
			}
			if fresh := e.Certificate.NotAfter.Equal(tt.end.UTC()); fresh != slices.Contains(tt.want, e.Role) {
				t.Errorf("%v: %s lasts until %s", tt.roles, e.Role, e.Certificate.NotAfter)
			}
			if a, b := subjectOf(e.Certificate), subjectOf(old.Certificate); a.CommonName != b.CommonName || !slices.Equal(a.Hosts, b.Hosts) || a.Client != b.Client || !slices.Equal(e.Certificate.ExtKeyUsage, old.Certificate.ExtKeyUsage) {
				t.Errorf("%s: %+v, was %+v", e.Role, a, b)
			}
			if e.Root {
				continue
			}
			if _, err := tls.LoadX509KeyPair(filepath.Join(dir, e.Role, "tls.crt"), filepath.Join(dir, e.Role, "tls.key")); err != nil {
				t.Errorf("%s: %v", e.Role, err)
			}
		}
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(dir, "admin", "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	crt, err := os.ReadFile(filepath.Join(dir, "admin", "tls.crt"))
	if err != nil || config.Clusters["howdah"].Server != "https://api.example:6443" || string(config.AuthInfos["kubernetes-admin"].ClientCertificateData) != string(crt) {
		t.Errorf("%v: %+v", err, config.Clusters["howdah"])
	}
	// What is renewed is what pki would have made: nothing is replaced again.
	serial := func() string {
		c, err := readCertificate(filepath.Join(dir, "n1", "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		return c.SerialNumber.String()
	}
	kept := serial()
	options.Now = func() time.Time { return later.Add(2 * time.Hour) }
	if err := Init(dir, options); err != nil || serial() != kept {
		t.Errorf("pki makes another one: %v", err)
	}
	if one, err := List(filepath.Join(dir, "n1")); err != nil || len(one) != 1 || one[0].Role != "n1" || one[0].Authority == nil {
		t.Errorf("%v, %v", one, err)
	}
}

func TestListAndRenewSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	made := func() string {
		dir := t.TempDir()
		if err := Init(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	noKey, broken, foreign := made(), made(), made()
	if err := os.Remove(filepath.Join(noKey, "ca", "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "dns", "tls.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(made(), "ca", "ca.crt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(foreign, "dns", "ca.crt"), other, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := List(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no certificates") {
		t.Errorf("an empty folder: %v", err)
	}
	if got, err := List(broken); err == nil || !strings.Contains(err.Error(), "dns/tls.crt") || len(got) != len(controlPlane) {
		t.Errorf("a broken one: %d, %v", len(got), err)
	}
	got, err := List(foreign)
	if i := slices.IndexFunc(got, func(e Entry) bool { return e.Role == "dns" }); err != nil || got[i].Authority != nil {
		t.Errorf("of another authority: %v, %v", got, err)
	}
	for want, tt := range map[string]struct {
		dir   string
		roles []string
	}{
		"where the authority's key is": {noKey, nil},
		`no certificate of "nobody"`:   {made(), []string{"nobody"}},
		`no certificate of "ca"`:       {made(), []string{"ca"}},
	} {
		if done, err := Renew(tt.dir, tt.roles, time.Now()); err == nil || !strings.Contains(err.Error(), want) || len(done) > 0 {
			t.Errorf("%v, %v; want %q", done, err, want)
		}
	}
}
