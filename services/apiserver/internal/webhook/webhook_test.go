package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/pki"
)

// serve runs a TLS server and returns it with the CA that a client must trust.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, []byte) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestPost(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	server, ca := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			_, _ = w.Write([]byte(r.Header.Get("Content-Type") + " " + r.URL.RawQuery + " " + string(body)))
		case "/hang":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/broken":
			http.Error(w, "out of order", http.StatusInternalServerError)
		case "/missing":
			http.NotFound(w, r)
		case "/elsewhere":
			http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
		case "/plain":
			http.Redirect(w, r, "http://127.0.0.1:1/echo", http.StatusTemporaryRedirect)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusTemporaryRedirect)
		case "/status":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not you","reason":"Forbidden","code":403}`))
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"secret":1}`))
		case "/empty":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(http.StatusCreated)
		case "/untold":
			w.Header()["Content-Type"] = nil
		case "/large":
			_, _ = w.Write(make([]byte, 2000))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		}
	})
	stranger, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caller := New(Config{})
	defer caller.Close()
	for name, test := range map[string]struct {
		target  Target
		timeout time.Duration
		want    string
		errs    []string
	}{
		"answers":       {target: Target{URL: server.URL + "/echo", CABundle: ca}, want: "application/json timeout=30s hello"},
		"hangs":         {target: Target{URL: server.URL + "/hang", CABundle: ca}, timeout: 50 * time.Millisecond, errs: []string{"Post \"" + server.URL + "/hang?timeout=1s\": context deadline exceeded"}},
		"fails":         {target: Target{URL: server.URL + "/broken", CABundle: ca}, errs: []string{`an error on the server ("out of order`, "has prevented the request from succeeding"}},
		"not there":     {target: Target{URL: server.URL + "/missing", CABundle: ca}, errs: []string{"the server could not find the requested resource"}},
		"redirects":     {target: Target{URL: server.URL + "/elsewhere", CABundle: ca}, want: "application/json  hello"},
		"goes plain":    {target: Target{URL: server.URL + "/plain", CABundle: ca}, errs: []string{"which is not https"}},
		"goes round":    {target: Target{URL: server.URL + "/circle", CABundle: ca}, errs: []string{"stopped after 10 redirects"}},
		"has a Status":  {target: Target{URL: server.URL + "/status", CABundle: ca}, errs: []string{"not you"}},
		"says nothing":  {target: Target{URL: server.URL + "/json", CABundle: ca}, errs: []string{`an error on the server ("unknown") has prevented the request from succeeding`}},
		"is empty":      {target: Target{URL: server.URL + "/empty", CABundle: ca}, errs: []string{"0-length response with status code: 201 and content type: application/json; charset=utf-8"}},
		"is untold":     {target: Target{URL: server.URL + "/untold", CABundle: ca}, errs: []string{"0-length response with status code: 200 and content type: application/json"}},
		"says too much": {target: Target{URL: server.URL + "/large", CABundle: ca}, errs: []string{"the answer of the webhook is larger than 1000 bytes"}},
		"stops":         {target: Target{URL: server.URL + "/cut", CABundle: ca}, errs: []string{"unexpected error when reading response body. Please retry. Original error: unexpected EOF"}},
		"is a stranger": {target: Target{URL: server.URL + "/echo", CABundle: stranger.PEM()}, errs: []string{"tls: failed to verify certificate: x509: certificate signed by unknown authority"}},
		"has no roots":  {target: Target{URL: server.URL + "/echo", CABundle: []byte("x")}, errs: []string{"unable to load root certificates: unable to parse bytes as PEM block"}},
		"closed":        {target: Target{URL: "https://127.0.0.1:1", CABundle: ca}, errs: []string{"connect: connection refused"}},
		"plain":         {target: Target{URL: "http://127.0.0.1/x"}, errs: []string{"must be https"}},
		"nowhere":       {errs: []string{"webhook configuration must have either service or URL"}},
		"no dialer":     {target: Target{Service: &Service{Namespace: "ns", Name: "hook"}}, errs: []string{`Post "https://hook.ns.svc:443/?timeout=30s": service "hook" cannot be reached`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.timeout == 0 {
				test.timeout = 30 * time.Second
			}
			answer, err := caller.Post(context.Background(), Call{Purpose: "test", Target: test.target, Body: []byte("hello"), Timeout: test.timeout, MaxAnswer: 1000})
			if len(test.errs) == 0 && (err != nil || string(answer) != test.want) {
				t.Errorf("%q, %v; want %q", answer, err, test.want)
			}
			for _, text := range test.errs {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%q, %v; want an error with %q", answer, err, text)
				}
			}
		})
	}
	t.Run("is in time", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := caller.Post(ctx, Call{Target: Target{URL: server.URL + "/hang", CABundle: ca}}); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that nobody waits for: %v", err)
		}
	})
	t.Run("tells the time that is left", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second-time.Millisecond)
		defer cancel()
		answer, err := caller.Post(ctx, Call{Target: Target{URL: server.URL + "/echo", CABundle: ca}, Body: []byte("hello"), Timeout: 30 * time.Second})
		if err != nil || string(answer) != "application/json timeout=20s hello" {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

func TestRefusedKeepsItsCode(t *testing.T) {
	t.Parallel()
	if err := refused(503, "text/plain", []byte("x")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("503: %v", err)
	}
	if text := refused(500, "", []byte(strings.Repeat("x", 1<<20))).Error(); len(text) > 3000 {
		t.Errorf("%d bytes of an answer are quoted", len(text))
	}
}

type dialer map[string]string

func (d dialer) Service(ctx context.Context, namespace, name string, port int32) (net.Conn, error) {
	address, ok := d[namespace+"/"+name]
	if !ok || port != 8443 {
		return nil, errors.New("no endpoints available for service \"" + name + "\"")
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// A Service's webhook must have a certificate for the Service's name.
func TestService(t *testing.T) {
	t.Parallel()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Host + r.URL.Path))
	}))
	pair, err := authority.Issue(pki.Subject{CommonName: "hook", Hosts: []string{"hook.ns.svc"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	caller := New(Config{Dialer: dialer{"ns/hook": at.Host, "ns/other": at.Host}})
	defer caller.Close()
	call := func(name string) (string, error) {
		answer, err := caller.Post(t.Context(), Call{Target: Target{Service: &Service{Namespace: "ns", Name: name, Port: 8443, Path: "/mutate"}, CABundle: authority.PEM()}})
		return string(answer), err
	}
	if got, err := call("hook"); err != nil || got != "hook.ns.svc:8443/mutate" {
		t.Errorf("%q, %v", got, err)
	}
	var wrong x509.HostnameError
	if _, err := call("other"); !errors.As(err, &wrong) {
		t.Errorf("another service's certificate: %v", err)
	}
	if _, err := call("none"); err == nil || !strings.Contains(err.Error(), `no endpoints available for service "none"`) {
		t.Errorf("no service: %v", err)
	}
}

// What is kept is bounded, and a connection that went stale is not noticed by the caller.
func TestConnections(t *testing.T) {
	t.Parallel()
	server, ca := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	caller := New(Config{})
	defer caller.Close()
	call := Call{Target: Target{URL: server.URL, CABundle: ca}}
	for range 5 {
		if _, err := caller.Post(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		server.CloseClientConnections()
	}
	for i := range 2 * maxTransports {
		if _, err := caller.transports.client(&Target{Service: &Service{Namespace: "ns", Name: "s", Port: int32(i + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := caller.transports.recent.Len(), len(caller.transports.byKey); n != maxTransports || m != n {
		t.Errorf("%d and %d transports are kept", n, m)
	}
}

// What has a URL is called over HTTP/2 where it speaks that; the endpoints of a Service share their calls, connection by connection.
func TestProtocols(t *testing.T) {
	t.Parallel()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "hook", Hosts: []string{"hook.default.svc", "127.0.0.1"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	caller := New(Config{Dialer: dialer{"default/hook": server.Listener.Addr().String()}})
	defer caller.Close()
	for want, target := range map[string]Target{
		"HTTP/2.0": {URL: server.URL, CABundle: authority.PEM()},
		"HTTP/1.1": {Service: &Service{Namespace: "default", Name: "hook", Port: 8443}, CABundle: authority.PEM()},
	} {
		got, err := caller.Post(t.Context(), Call{Target: target})
		if string(got) != want || err != nil {
			t.Errorf("%q %v, want %s", got, err, want)
		}
	}
}
