package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

func TestSubresources(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/metrics": "metrics", "/metrics/cadvisor": "metrics", "/metricsx": "proxy", "/stats/summary": "stats", "/logs/": "log", "/checkpoint/a/b/c": "checkpoint",
		"/pods": "pods proxy", "/pods/": "pods proxy", "/runningpods/": "pods proxy", "/healthz": "healthz proxy", "/healthz/ping": "healthz proxy",
		"/configz": "configz proxy", "/statusz": "statusz", "/flagz": "configz", "/exec/a/b/c": "proxy", "/containerLogs/a/b/c": "proxy", "/": "proxy", "/healthzz": "proxy",
	} {
		if got := strings.Join(Subresources(path), " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// reviews answers as an API server with one token and rules "user verb subresource".
type reviews struct {
	mu      sync.Mutex
	allowed []string
	fail    error
	asked   []string
}

func (r *reviews) say(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, what)
	return r.fail
}

func (r *reviews) ReviewToken(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	if err := r.say("token"); err != nil || token != "good" {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: "meter", UID: "7", Groups: []string{"system:serviceaccounts", "trusted"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
	}}, nil
}

func (r *reviews) ReviewAccess(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	a := spec.ResourceAttributes
	rule := spec.User + " " + a.Verb + " " + a.Subresource
	err := r.say(rule)
	r.mu.Lock()
	defer r.mu.Unlock()
	allowed := a.Resource == "nodes" && a.Name == "n" && a.Group == "" && a.Namespace == "" && slices.Contains(r.allowed, rule)
	if spec.User == "meter" && (spec.UID != "7" || !slices.Contains(spec.Groups, "system:authenticated") || spec.Extra["pod"][0] != "p") {
		allowed = false
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}, err
}

func (r *reviews) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// issue returns a pointer, as callers may have no certificate.
func issue(t *testing.T, a *pki.Authority, s pki.Subject) *tls.Certificate {
	t.Helper()
	c := pkitest.Certificate(t, a, s)
	return &c
}

type fixture struct {
	reviews *reviews
	clock   *clocktesting.FakeClock
	server  *httptest.Server
	roots   *x509.CertPool
	others  *pki.Authority // who signs certificates of users, too
}

func start(t *testing.T, a *pki.Authority, anonymous bool, allowed ...string) *fixture {
	t.Helper()
	others := pkitest.Authority(t)
	f := &fixture{others: others, reviews: &reviews{allowed: allowed}, clock: clocktesting.NewFakeClock(time.Now()), roots: a.Pool()}
	guard := New(Config{NodeName: "n", Authorities: a.Pool, Trusted: "trusted", Anonymous: anonymous, Reviewer: f.reviews, Clock: f.clock, Others: others.Pool})
	f.server = httptest.NewUnstartedServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })))
	f.server.EnableHTTP2 = true
	f.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{*issue(t, a, pki.Subject{CommonName: "n", Hosts: []string{"127.0.0.1"}})}}
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f
}

// ask returns the code and what was said.
func (f *fixture) ask(t *testing.T, method, path, token string, with *tls.Certificate) (int, string) {
	t.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.roots}
	if with != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return with, nil }
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

func TestProtect(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	f := start(t, a, false, "meter get metrics", "meter get proxy", "admin get pods", "admin create proxy")
	admin := issue(t, a, pki.Subject{CommonName: "admin", Client: true})
	for name, c := range map[string]struct {
		method, path, token string
		with                *tls.Certificate
		code                int
		text                string
	}{
		"token":                            {path: "/metrics/resource", token: "good", code: 200, text: "in"},
		"by nodes/proxy":                   {path: "/pods", token: "good", code: 200, text: "in"},
		"a path that proxy does not open":  {path: "/stats/summary", token: "good", code: 403, text: "Forbidden (user=meter, verb=get, resource=nodes, subresource(s)=[stats])"},
		"a method":                         {method: "POST", path: "/pods", token: "good", code: 403, text: "Forbidden (user=meter, verb=create, resource=nodes, subresource(s)=[pods proxy])"},
		"nobody's token":                   {path: "/metrics", token: "bad", code: 401, text: "Unauthorized"},
		"nobody":                           {path: "/healthz", code: 401, text: "Unauthorized"},
		"certificate":                      {path: "/pods", with: admin, code: 200, text: "in"},
		"certificate before token":         {path: "/metrics", with: admin, token: "good", code: 403, text: "Forbidden (user=admin, verb=get, resource=nodes, subresource(s)=[metrics])"},
		"exec":                             {method: "POST", path: "/exec/a/b/c", with: admin, code: 200, text: "in"},
		"trusted":                          {path: "/anything", with: issue(t, a, pki.Subject{CommonName: "api", Organizations: []string{"trusted"}, Client: true}), code: 200, text: "in"},
		"trusted by a token":               {path: "/logs", token: "good", code: 403, text: "Forbidden (user=meter, verb=get, resource=nodes, subresource(s)=[log])"},
		"somebody else's":                  {path: "/pods", with: issue(t, pkitest.Authority(t), pki.Subject{CommonName: "admin", Organizations: []string{"trusted"}, Client: true}), code: 401, text: "Unauthorized"},
		"somebody else's, and a token":     {path: "/metrics", token: "good", with: issue(t, pkitest.Authority(t), pki.Subject{CommonName: "admin", Organizations: []string{"trusted"}, Client: true}), code: 200, text: "in"},
		"a certificate that names nobody":  {path: "/pods", with: issue(t, a, pki.Subject{Client: true}), code: 401, text: "Unauthorized"},
		"of another authority":             {path: "/pods", with: issue(t, f.others, pki.Subject{CommonName: "admin", Client: true}), code: 200, text: "in"},
		"of another one, as if trusted":    {path: "/logs", with: issue(t, f.others, pki.Subject{CommonName: "admin", Organizations: []string{"trusted"}, Client: true}), code: 403, text: "Forbidden (user=admin, verb=get, resource=nodes, subresource(s)=[log])"},
		"of another one, in our name":      {path: "/pods", with: issue(t, f.others, pki.Subject{CommonName: "howdah:gateway", Client: true}), code: 401, text: "Unauthorized"},
		"a server's certificate":           {path: "/pods", with: issue(t, a, pki.Subject{CommonName: "admin", Hosts: []string{"admin"}}), code: 401, text: "Unauthorized"},
		"a method that Kubernetes has not": {method: "HEAD", path: "/metrics", token: "good", code: 403},
	} {
		if c.method == "" {
			c.method = http.MethodGet
		}
		if code, text := f.ask(t, c.method, c.path, c.token, c.with); code != c.code || text != c.text {
			t.Errorf("%s: %d %q", name, code, text)
		}
	}
}

// TestRenewedCertificate: who was refused for his certificate shows the one that took its place, though he keeps connections.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	f := start(t, a, false)
	subject := pki.Subject{CommonName: "meter", Organizations: []string{"trusted"}, Client: true}
	var shown *tls.Certificate
	for _, protocols := range [][]string{{"h2"}, nil} {
		transport := &http.Transport{ForceAttemptHTTP2: protocols != nil, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: f.roots, NextProtos: protocols,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil },
		}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		ask := func() int {
			response, err := client.Get(f.server.URL + "/pods")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode
		}
		shown = issue(t, pkitest.Authority(t), subject)
		if code := ask(); code != http.StatusUnauthorized {
			t.Errorf("%v: with a certificate of another authority: %d", protocols, code)
		}
		shown = issue(t, a, subject)
		if code := ask(); code != http.StatusOK {
			t.Errorf("%v: with the one that took its place: %d", protocols, code)
		}
	}
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	f := start(t, a, true, "system:anonymous get healthz")
	for path, want := range map[string]int{"/healthz": 200, "/pods": 403} {
		if code, text := f.ask(t, "GET", path, "", nil); code != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := f.ask(t, "GET", "/healthz", "bad", nil); code != http.StatusUnauthorized {
		t.Errorf("a token that is nobody's: %d", code)
	}
}

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	f := start(t, a, false, "meter get metrics")
	step := func(d time.Duration, path string, want, asked int) {
		t.Helper()
		f.clock.Step(d)
		before := f.reviews.count()
		if code, text := f.ask(t, "GET", path, "good", nil); code != want {
			t.Errorf("%d %s", code, text)
		}
		if got := f.reviews.count() - before; got != asked {
			t.Errorf("asked %d times, not %d", got, asked)
		}
	}
	step(0, "/metrics", 200, 2)
	step(time.Minute, "/metrics", 200, 0)
	step(2*time.Minute, "/metrics", 200, 1) // the token again, but not the access
	step(3*time.Minute, "/metrics", 200, 2)
	step(0, "/stats/summary", 403, 1)
	step(29*time.Second, "/stats/summary", 403, 0)
	step(2*time.Second, "/stats/summary", 403, 1)
	f.reviews.fail = errors.New("away")
	step(0, "/metrics", 200, 0) // what is known serves while the API is away
	step(time.Hour, "/metrics", 401, 1)
	step(0, "/metrics", 401, 1) // a failure is not kept
	f.reviews.fail = nil
	step(0, "/metrics", 200, 2)
}

func TestErrorsOfTheDecision(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	f := start(t, a, false)
	f.reviews.fail = errors.New("away")
	code, text := f.ask(t, "GET", "/pods", "", issue(t, a, pki.Subject{CommonName: "admin", Client: true}))
	if code != 500 || text != "Authorization error (user=admin, verb=get, resource=nodes, subresource=pods)" {
		t.Errorf("%d %s", code, text)
	}
}
