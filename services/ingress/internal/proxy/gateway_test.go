package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/services/ingress/internal/route"
)

// use puts manifests of the Gateway API into use, all of the namespace shop.
func (f *front) use(text string) *route.Table {
	f.t.Helper()
	from := route.GatewaySources{
		Version: "v1.5.1", Addresses: []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}},
		Classes: []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "howdah"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: route.GatewayController}}},
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var kind metav1.TypeMeta
		var o object.Object
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			f.t.Fatalf("%v:\n%s", err, doc)
		}
		switch kind.Kind {
		case "Gateway":
			from.Gateways = append(from.Gateways, &gatewayv1.Gateway{})
			o = from.Gateways[len(from.Gateways)-1]
		case "HTTPRoute":
			from.HTTPRoutes = append(from.HTTPRoutes, &gatewayv1.HTTPRoute{})
			o = from.HTTPRoutes[len(from.HTTPRoutes)-1]
		case "GRPCRoute":
			from.GRPCRoutes = append(from.GRPCRoutes, &gatewayv1.GRPCRoute{})
			o = from.GRPCRoutes[len(from.GRPCRoutes)-1]
		case "TLSRoute":
			from.TLSRoutes = append(from.TLSRoutes, &gatewayv1.TLSRoute{})
			o = from.TLSRoutes[len(from.TLSRoutes)-1]
		case "BackendTLSPolicy":
			from.Policies = append(from.Policies, &gatewayv1.BackendTLSPolicy{})
			o = from.Policies[len(from.Policies)-1]
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			f.t.Fatalf("%v:\n%s", err, doc)
		}
		o.SetNamespace("shop")
	}
	table := new(route.Builder).Build(route.Sources{Gateways: from}, f, time.Now())
	for _, fault := range table.Faults {
		f.t.Logf("%s: %s: %s", fault.Object.GetName(), fault.Reason, fault.Message)
	}
	if closed := f.Use(table); len(closed) > 0 {
		f.t.Logf("closed: %v", closed)
	}
	return table
}

// seen is what a backend was asked.
type seen struct {
	Backend, Method, Host, URI, Proto, Body string
	Header                                  http.Header
}

// tells is a backend that answers with what it was asked.
func tells(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-From", name)
		_ = json.NewEncoder(w).Encode(seen{name, r.Method, r.Host, r.RequestURI, r.Proto, string(body), r.Header})
	}
}

const frontGateway = `{kind: Gateway, metadata: {name: front}, spec: {gatewayClassName: howdah, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
`

// TestFilters sends a request through each filter.
func TestFilters(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	f.service("idle", "")
	f.serve("10.0.0.1", tells("web"))
	to := "backendRefs: [{name: web, port: 80}]"
	rules := map[string]string{
		"/request":  `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: new}], add: [{name: x-add, value: more}], remove: [x-gone]}}], ` + to,
		"/backend":  `backendRefs: [{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: backend}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-from, value: changed}]}}]}]`,
		"/response": `filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-set, value: a}], add: [{name: x-from, value: more}], remove: [content-type]}}], ` + to,
		"/redirect": `filters: [{type: RequestRedirect, requestRedirect: {hostname: other.com, statusCode: 301}}]`,
		"/scheme":   `filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 308, path: {type: ReplacePrefixMatch, replacePrefixMatch: /secure}}}]`,
		"/port":     `filters: [{type: RequestRedirect, requestRedirect: {port: 8083, path: {type: ReplaceFullPath, replaceFullPath: /full}}}]`,
		"/rewrite":  `filters: [{type: URLRewrite, urlRewrite: {hostname: inner.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], ` + to,
		"/full":     `filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /one}}}], ` + to,
		"/ext":      `filters: [{type: ExtensionRef, extensionRef: {group: x, kind: Y, name: z}}], ` + to,
		"/none":     `name: nothing`,
		"/zero":     `backendRefs: [{name: web, port: 80, weight: 0}]`,
		"/gone":     `backendRefs: [{name: gone, port: 80}]`,
		"/idle":     `backendRefs: [{name: idle, port: 80}]`,
		"/cors":     `filters: [{type: CORS, cors: {allowOrigins: ["https://*.a.com"], allowCredentials: true, allowMethods: ["*"], allowHeaders: [x-a], exposeHeaders: [x-b], maxAge: 60}}], ` + to,
	}
	text := frontGateway + "kind: HTTPRoute\nmetadata: {name: r}\nspec:\n  parentRefs: [{name: front}]\n  rules:\n"
	for _, path := range slices.Sorted(maps.Keys(rules)) {
		text += fmt.Sprintf("  - {matches: [{path: {value: %s}}], %s}\n", path, rules[path])
	}
	f.use(text)
	for _, tt := range []struct {
		method, path, headers string // "name=value name=value"
		code                  int
		answer                string // headers of the answer, likewise; those without a value are not there
		uri, host, asked      string // what the backend saw
	}{
		{"GET", "/request?q=1", "X-Gone=1 X-Add=first", 200, "X-From=web", "/request?q=1", "a.com", "X-Set=new X-Add=first,more X-Gone"},
		{"GET", "/backend", "X-Set=old", 200, "X-From=changed", "/backend", "a.com", "X-Set=backend"},
		{"GET", "/response", "", 200, "X-Set=a X-From=web,more", "/response", "a.com", ""},
		{"GET", "/redirect/x?q", "", 301, "Location=http://other.com/redirect/x?q", "", "", ""},
		{"GET", "/scheme/x", "", 308, "Location=https://a.com/secure/x", "", "", ""},
		{"GET", "/port/x", "", 302, "Location=http://a.com:8083/full", "", "", ""},
		{"GET", "/rewrite", "", 200, "", "/", "inner.com", ""},
		{"GET", "/rewrite/a%2Fb/c?q=1", "", 200, "", "/a%2Fb/c?q=1", "inner.com", ""},
		{"GET", "/full/x?q=1", "", 200, "", "/one?q=1", "a.com", ""},
		{"GET", "/ext", "", 500, "", "", "", ""},
		{"GET", "/none", "", 500, "", "", "", ""},
		{"GET", "/zero", "", 500, "", "", "", ""},
		{"GET", "/gone", "", 500, "", "", "", ""},
		{"GET", "/idle", "", 503, "", "", "", ""},
		{"GET", "/other", "", 404, "", "", "", ""},
		{"OPTIONS", "/cors", "Origin=https://x.y.a.com Access-Control-Request-Method=PUT", 204,
			"Access-Control-Allow-Origin=https://x.y.a.com Access-Control-Allow-Methods=PUT Access-Control-Allow-Headers=x-a Access-Control-Allow-Credentials=true Access-Control-Max-Age=60 Access-Control-Expose-Headers=x-b", "", "", ""},
		{"OPTIONS", "/cors", "Origin=https://a.com Access-Control-Request-Method=PUT", 204, "Access-Control-Allow-Origin Access-Control-Allow-Methods", "", "", ""},
		{"GET", "/cors", "Origin=https://b.a.com", 200, "Access-Control-Allow-Origin=https://b.a.com X-From=web", "/cors", "a.com", ""},
		{"GET", "/cors", "Origin=https://evil.com", 200, "Access-Control-Allow-Origin", "/cors", "a.com", ""},
	} {
		t.Run(tt.method+tt.path, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://a.com"+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range strings.Fields(tt.headers) {
				name, value, _ := strings.Cut(h, "=")
				r.Header.Add(name, value)
			}
			response, err := f.client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tt.code {
				t.Errorf("code %d, want %d", response.StatusCode, tt.code)
			}
			compare(t, "the answer", response.Header, tt.answer)
			if tt.uri == "" {
				return
			}
			var got seen
			if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if got.URI != tt.uri || got.Host != tt.host {
				t.Errorf("the backend was asked for %s at %s, want %s at %s", got.URI, got.Host, tt.uri, tt.host)
			}
			compare(t, "the request", got.Header, tt.asked)
		})
	}
}

func compare(t *testing.T, what string, have http.Header, want string) {
	t.Helper()
	for _, h := range strings.Fields(want) {
		name, value, _ := strings.Cut(h, "=")
		if got := strings.Join(have.Values(name), ","); got != value {
			t.Errorf("%s has %s: %q, want %q", what, name, got, value)
		}
	}
}

// TestWeightsAndMirrors spreads requests by weights, and copies them with their bodies.
func TestWeightsAndMirrors(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	copies := make(chan string, 100)
	for n, name := range []string{"a", "b", "never"} {
		f.service(name, "", fmt.Sprint("10.0.0.", n+1))
		f.serve(fmt.Sprint("10.0.0.", n+1), tells(name))
	}
	f.service("copy", "", "10.0.0.9")
	f.serve("10.0.0.9", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		copies <- r.Method + " " + r.RequestURI + " " + string(body)
	}))
	f.use(frontGateway + `{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], rules: [
  {matches: [{path: {value: /w}}], backendRefs: [{name: a, port: 80, weight: 3}, {name: b, port: 80, weight: 1}, {name: never, port: 80, weight: 0}]},
  {matches: [{path: {value: /m}}], filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 80}}}], backendRefs: [{name: a, port: 80}]},
  {matches: [{path: {value: /p}}], filters: [{type: RequestMirror, requestMirror: {percent: 0, backendRef: {name: copy, port: 80}}}], backendRefs: [{name: a, port: 80}]}]}}`)
	counts := map[string]int{}
	c := f.client() // one, since connections are bounded
	for range 200 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.com/w", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, body := do(t, c, r)
		var got seen
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		counts[got.Backend]++
	}
	if counts["a"] <= counts["b"] || counts["b"] == 0 || counts["never"] > 0 {
		t.Errorf("spread %v", counts)
	}
	for _, body := range []string{"", "hello"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.com/m?x", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if code, text := do(t, c, r); code != 200 || !strings.Contains(text, `"Body":"`+body+`"`) {
			t.Errorf("%d %s", code, text)
		}
		if got := receive(t, copies, "the copy"); got != "POST /m?x "+body {
			t.Errorf("copied %q", got)
		}
	}
	if code, _ := f.get("http://a.com/p"); code != 200 {
		t.Errorf("code %d", code)
	}
	if len(copies) > 0 {
		t.Errorf("copied %q", <-copies)
	}
}

// TestTimeouts ends requests whose rule gives them less time than the backend takes.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *Config) { c.Limits.Answer = 200 * time.Millisecond })
	f.service("slow", "", "10.0.0.1")
	late := make(chan struct{})
	f.serve("10.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-late:
			_, _ = io.WriteString(w, "late")
		}
	}))
	f.use(frontGateway + `{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], rules: [
  {matches: [{path: {value: /short}}], timeouts: {request: 50ms}, backendRefs: [{name: slow, port: 80}]},
  {matches: [{path: {value: /usual}}], backendRefs: [{name: slow, port: 80}]},
  {matches: [{path: {value: /long}}], timeouts: {request: 0s}, backendRefs: [{name: slow, port: 80}]}]}}`)
	for _, path := range []string{"/short", "/usual"} {
		if code, _ := f.get("http://a.com" + path); code != http.StatusGatewayTimeout {
			t.Errorf("%s: %d", path, code)
		}
	}
	time.AfterFunc(time.Second, func() { close(late) }) // beyond the proxy's own limit
	if code, text := f.get("http://a.com/long"); code != 200 || text != "late" {
		t.Errorf("%d %s", code, text)
	}
}

// TestPortsComeAndGo opens what Gateways name, and closes it when none does.
func TestPortsComeAndGo(t *testing.T) {
	t.Parallel()
	opened := make(chan string, 10)
	f := start(t, func(c *Config) {
		c.Listen = func(port int32) (net.Listener, error) {
			if port == 9 {
				return nil, &net.OpError{Op: "listen", Err: errors.New("not for you")}
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				opened <- l.Addr().String()
			}
			return l, err
		}
	})
	f.service("web", "", "10.0.0.1")
	f.serve("10.0.0.1", says("web"))
	table := f.use(`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [{name: a, port: 8080, protocol: HTTP}, {name: b, port: 9, protocol: HTTP}]}}
---
{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: g}], rules: [{backendRefs: [{name: web, port: 80}]}]}}`)
	if closed := f.Use(table); closed[9] != "not for you" || len(closed) != 1 {
		t.Errorf("closed %v", closed)
	}
	at := receive(t, opened, "a port")
	ask := func() (string, error) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		response, err := c.Get("http://" + at + "/")
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	if got, err := ask(); err != nil || got != "web" {
		t.Errorf("%q, %v", got, err)
	}
	if code, _ := f.get("http://a.com/"); code != http.StatusNotFound {
		t.Errorf("the route of another port answers with %d", code)
	}
	f.Use(&route.Table{})
	if got, err := ask(); err == nil {
		t.Errorf("a port that nobody names answers %q", got)
	}
}

// TestTLSOfGateways has certificates by listener, clients that prove who they are, and requests that come by another listener's connection.
func TestTLSOfGateways(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	f.serve("10.0.0.1", says("web"))
	f.secret("open", "open.com")
	f.secret("judged", "judged.com")
	f.maps = append(f.maps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}, Data: map[string]string{"ca.crt": pemOf(f.authority.Certificate)}})
	f.use(`{kind: Gateway, metadata: {name: open}, spec: {gatewayClassName: howdah, listeners: [{name: a, port: 443, protocol: HTTPS, hostname: open.com, tls: {certificateRefs: [{name: open}]}}]}}
---
{kind: Gateway, metadata: {name: judged}, spec: {gatewayClassName: howdah, tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}, listeners: [{name: a, port: 443, protocol: HTTPS, hostname: judged.com, tls: {certificateRefs: [{name: judged}]}}]}}
---
{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: open}, {name: judged}], rules: [{backendRefs: [{name: web, port: 80}]}]}}`)
	issued, err := f.authority.Issue(pki.Subject{CommonName: "client", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(server, host string, certificates ...tls.Certificate) string {
		c := f.client()
		transport := c.Transport.(*http.Transport)
		transport.TLSClientConfig.ServerName, transport.TLSClientConfig.Certificates, transport.DisableKeepAlives = server, certificates, true
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(r)
		if err != nil {
			return "refused"
		}
		defer response.Body.Close()
		return response.Status
	}
	for _, tt := range []struct {
		server, host, want string
		certificates       []tls.Certificate
	}{
		{"open.com", "open.com", "200 OK", nil},
		{"judged.com", "judged.com", "refused", nil},
		{"judged.com", "judged.com", "200 OK", []tls.Certificate{pair}},
		{"open.com", "judged.com", "421 Misdirected Request", []tls.Certificate{pair}},
		{"open.com", "unknown.com", "421 Misdirected Request", nil},
	} {
		if got := ask(tt.server, tt.host, tt.certificates...); got != tt.want {
			t.Errorf("%s by a connection for %s, with %d certificates: %s, want %s", tt.host, tt.server, len(tt.certificates), got, tt.want)
		}
	}
}

func pemOf(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// TestStreams leads connections of TLS to backends, as they are and as what is within, beside those of HTTPS.
func TestStreams(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("own", "", "10.0.0.1")
	f.service("lines", "", "10.0.0.2")
	f.service("web", "", "10.0.0.3")
	f.secret("ends", "ends.com")
	f.secret("https", "https.com")
	own := f.pair("own", "own.com")
	secure := httptest.NewUnstartedServer(says("own TLS"))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f.place("10.0.0.1", secure.Listener.Addr().String())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, "you said "+line)
			_ = conn.Close()
		}
	}()
	f.place("10.0.0.2", l.Addr().String())
	f.serve("10.0.0.3", says("web"))
	f.use(`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [{name: pass, port: 443, protocol: TLS, tls: {mode: Passthrough}},
  {name: ends, port: 443, protocol: TLS, hostname: ends.com, tls: {mode: Terminate, certificateRefs: [{name: ends}]}}, {name: https, port: 443, protocol: HTTPS, hostname: https.com, tls: {certificateRefs: [{name: https}]}}]}}
---
{kind: TLSRoute, metadata: {name: pass}, spec: {hostnames: [own.com], parentRefs: [{name: g, sectionName: pass}], rules: [{backendRefs: [{name: own, port: 80}]}]}}
---
{kind: TLSRoute, metadata: {name: ends}, spec: {hostnames: [ends.com], parentRefs: [{name: g, sectionName: ends}], rules: [{backendRefs: [{name: lines, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: web}, spec: {hostnames: [https.com], parentRefs: [{name: g, sectionName: https}], rules: [{backendRefs: [{name: web, port: 80}]}]}}`)
	for url, want := range map[string]string{"https://own.com/": "own TLS", "https://https.com/": "web"} {
		if code, got := f.get(url); code != 200 || got != want {
			t.Errorf("%s: %d %q", url, code, got)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(f.authority.Certificate)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "ends.com"}}).DialContext(ctx, "tcp", f.https)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "you said hello\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBackendsProveWhoTheyAre asks backends over TLS as policies say.
func TestBackendsProveWhoTheyAre(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	f.secret("mine", "gateway")
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "asked for %s by %d certificates", r.TLS.ServerName, len(r.TLS.PeerCertificates))
	}))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{f.pair("web", "web.inner", "alt.inner")}, ClientAuth: tls.RequestClientCert}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f.place("10.0.0.1", secure.Listener.Addr().String())
	f.maps = append(f.maps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}, Data: map[string]string{"ca.crt": pemOf(f.authority.Certificate)}})
	for _, tt := range []struct {
		validation, want string
		code             int
	}{
		{`hostname: web.inner, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]`, "asked for web.inner by 1 certificates", 200},
		{`hostname: other.inner, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]`, "", 502},
		{`hostname: other.inner, subjectAltNames: [{type: Hostname, hostname: alt.inner}], caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]`, "asked for other.inner by 1 certificates", 200},
		{`hostname: web.inner, subjectAltNames: [{type: URI, uri: "spiffe://x/y"}], caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]`, "", 502},
		{`hostname: web.inner, wellKnownCACertificates: System`, "", 502},
		{`hostname: web.inner, caCertificateRefs: [{group: "", kind: ConfigMap, name: gone}]`, "", 500},
	} {
		f.use(`{kind: Gateway, metadata: {name: front}, spec: {gatewayClassName: howdah, tls: {backend: {clientCertificateRef: {name: mine}}}, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{name: web, port: 80}]}]}}
---
{kind: BackendTLSPolicy, metadata: {name: p}, spec: {targetRefs: [{group: "", kind: Service, name: web}], validation: {` + tt.validation + `}}}`)
		if code, got := f.get("http://a.com/"); code != tt.code || tt.want != "" && got != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.validation, code, got, tt.code, tt.want)
		}
	}
}

// TestGRPC carries HTTP/2 without TLS from end to end, and refuses in the way of gRPC.
func TestGRPC(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	f.serve("10.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprint(w, r.Proto)
		w.Header().Set("Grpc-Status", "0")
	}))
	f.use(frontGateway + `{kind: GRPCRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], rules: [{matches: [{method: {service: a.B}}], backendRefs: [{name: web, port: 80}]}, {matches: [{method: {service: a.Gone}}], backendRefs: [{name: gone, port: 80}]}]}}`)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	for path, want := range map[string]string{"/a.B/C": "0 HTTP/2.0", "/a.Gone/C": "14 ", "/x.Y/Z": "12 "} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.http+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		status := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status")
		if got := status + " " + string(body); err != nil || response.StatusCode != 200 || got != want {
			t.Errorf("%s: %d %q, %v, want %q", path, response.StatusCode, got, err, want)
		}
	}
}
