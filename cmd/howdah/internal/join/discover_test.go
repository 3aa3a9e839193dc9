package join

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

var token = bootstrap.Token{ID: "abcdef", Secret: "0123456789abcdef"}

// signed is cluster-info of a cluster, signed by a token.
func signed(t *testing.T, a *pki.Authority, by bootstrap.Token) map[string]string {
	t.Helper()
	content, err := bootstrap.Info{Server: "https://other.example:6443", CA: a.PEM()}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	header := encode(fmt.Appendf(nil, `{"alg":"HS256","kid":%q}`, by.ID))
	mac := hmac.New(sha256.New, []byte(by.Secret))
	mac.Write([]byte(header + "." + encode([]byte(content))))
	return map[string]string{bootstrap.InfoKey: content, bootstrap.SignaturePrefix + by.ID: header + ".." + encode(mac.Sum(nil))}
}

// gateway answers with what answer says, by a certificate of the authority for a host. It returns host:port.
func gateway(t *testing.T, a *pki.Authority, host string, answer func() (int, map[string]string)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != infoPath || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %q", r.URL.Path, r.Header)
		}
		code, data := answer()
		w.WriteHeader(code)
		if code == http.StatusOK {
			_ = json.NewEncoder(w).Encode(corev1.ConfigMap{Data: data})
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Status","message":"because"}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pkitest.Certificate(t, a, pki.Subject{CommonName: "gateway", Hosts: []string{host}})}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	ours, theirs := pkitest.Authority(t), pkitest.Authority(t)
	info := signed(t, ours, token)
	always := func(data map[string]string) func() (int, map[string]string) {
		return func() (int, map[string]string) { return http.StatusOK, data }
	}
	code := func(code int) func() (int, map[string]string) {
		return func() (int, map[string]string) { return code, nil }
	}
	var looks atomic.Int32
	changing := func() (int, map[string]string) {
		if looks.Add(1)%2 == 0 {
			return http.StatusOK, info
		}
		other := signed(t, ours, token)
		other[bootstrap.InfoKey] = strings.Replace(other[bootstrap.InfoKey], "other.example", "changed.example", 1)
		return http.StatusOK, other
	}
	pin := []string{bootstrap.Pin(ours.Certificate)}
	for name, tt := range map[string]struct {
		authority *pki.Authority
		host      string
		answer    func() (int, map[string]string)
		pins      []string
		want      string // a part of the error; empty: it is believed
		final     bool
	}{
		"pinned":                     {ours, "127.0.0.1", always(info), pin, "", false},
		"by the token alone":         {ours, "127.0.0.1", always(info), nil, "", false},
		"another pin":                {ours, "127.0.0.1", always(info), []string{bootstrap.Pin(theirs.Certificate)}, "none of those given", true},
		"somebody between":           {theirs, "127.0.0.1", always(info), pin, "not of the authority in cluster-info", true},
		"another name":               {ours, "gateway.example", always(info), pin, "howdah pki --gateway-names", true},
		"signed by another token":    {ours, "127.0.0.1", always(signed(t, ours, bootstrap.Token{ID: "bcdefg", Secret: token.Secret})), pin, `token id "abcdef" is invalid for this cluster or it has expired`, false},
		"signed by another secret":   {ours, "127.0.0.1", always(signed(t, ours, bootstrap.Token{ID: token.ID, Secret: "1123456789abcdef"})), pin, "does not match", false},
		"nothing in it":              {ours, "127.0.0.1", always(nil), pin, "says nothing", false},
		"no anonymous requests":      {ours, "127.0.0.1", code(http.StatusUnauthorized), pin, "401: because (is --anonymous-auth on", false},
		"a cluster without the map":  {ours, "127.0.0.1", code(http.StatusNotFound), pin, "404: because (has howdah addons", false},
		"a gateway without a mesh":   {ours, "127.0.0.1", code(http.StatusServiceUnavailable), pin, "503: because", false},
		"it is changed at that time": {ours, "127.0.0.1", changing, pin, "does not match", false},
	} {
		endpoint := gateway(t, tt.authority, tt.host, tt.answer)
		got, err := Discovery{Endpoint: endpoint, Token: token, Pins: tt.pins, Clock: clock.RealClock{}}.Discover(t.Context())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
			continue
		}
		if _, end := errors.AsType[final](err); end != tt.final {
			t.Errorf("%s: %v: final %t", name, err, end)
		}
		if err == nil && (got.Server != "https://"+endpoint || string(got.CA) != string(ours.PEM())) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDiscoverAwaitsTheSignature holds that a token is good at once, though the cluster signs a moment later.
func TestDiscoverAwaitsTheSignature(t *testing.T) {
	t.Parallel()
	ours := pkitest.Authority(t)
	info := signed(t, ours, token)
	var looks atomic.Int32
	endpoint := gateway(t, ours, "127.0.0.1", func() (int, map[string]string) {
		if looks.Add(1) < 3 {
			return http.StatusOK, map[string]string{bootstrap.InfoKey: info[bootstrap.InfoKey]}
		}
		return http.StatusOK, info
	})
	var said []string
	_, err := Discovery{Endpoint: endpoint, Token: token, Patience: time.Hour, Clock: clock.RealClock{}, Failed: func(err error) { said = append(said, err.Error()) }}.Discover(t.Context())
	if err != nil || len(said) != 2 || !strings.Contains(said[0], "is not signed with it") {
		t.Errorf("%v; said %q", err, said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks.Store(-1 << 20)
	_, err = Discovery{Endpoint: endpoint, Token: token, Patience: time.Hour, Clock: clock.RealClock{}, Failed: func(error) { cancel() }}.Discover(ctx)
	if err == nil {
		t.Error("it goes on after its end")
	}
}

func TestFromFile(t *testing.T) {
	t.Parallel()
	ours := pkitest.Authority(t)
	path := filepath.Join(t.TempDir(), "cluster")
	if _, err := fromFile(path, ""); err == nil || !strings.Contains(err.Error(), "--discovery-file") {
		t.Errorf("a file that is not there: %v", err)
	}
	text, err := bootstrap.Info{Server: "https://one:6443", CA: ours.PEM()}.Kubeconfig()
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]string{"": "https://one:6443", "two:6443": "https://two:6443"} {
		if info, err := fromFile(path, endpoint); err != nil || info.Server != want {
			t.Errorf("%q: %+v, %v", endpoint, info, err)
		}
	}
}
