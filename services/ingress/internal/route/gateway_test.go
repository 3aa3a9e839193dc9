package route

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const plainGateway = `{kind: Gateway, metadata: {name: front}, spec: {gatewayClassName: howdah, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
`

// TestMatches asks rules by what they ask of requests, in the order that the API documents.
func TestMatches(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, s := range strings.Fields("all exact regex prefix method header two query other wild deep") {
		w.service("shop", s, "10.0.0.1")
	}
	table := gatewayTable(t, w, plainGateway+`
kind: HTTPRoute
metadata: {name: rules}
spec:
  parentRefs: [{name: front}]
  hostnames: [a.example.com]
  rules:
  - {backendRefs: [{name: all, port: 80}]}
  - {matches: [{path: {type: Exact, value: /x}}], backendRefs: [{name: exact, port: 80}]}
  - {matches: [{path: {type: RegularExpression, value: "/x/[0-9]+"}}], backendRefs: [{name: regex, port: 80}]}
  - {matches: [{path: {type: PathPrefix, value: /x}}], backendRefs: [{name: prefix, port: 80}]}
  - {matches: [{path: {value: /x}, queryParams: [{name: q, value: "1"}]}], backendRefs: [{name: query, port: 80}]}
  - {matches: [{path: {value: /x}, headers: [{name: x-a, value: "1"}]}], backendRefs: [{name: header, port: 80}]}
  - {matches: [{path: {value: /x}, headers: [{name: x-a, value: "1"}, {name: x-b, type: RegularExpression, value: "b+"}]}], backendRefs: [{name: two, port: 80}]}
  - {matches: [{path: {value: /x}, method: PUT}], backendRefs: [{name: method, port: 80}]}
---
kind: HTTPRoute
metadata: {name: younger}
spec: {parentRefs: [{name: front}], hostnames: [a.example.com, "*.example.com"], rules: [{matches: [{path: {value: /x}}, {path: {value: /only}}], backendRefs: [{name: other, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: wild}
spec: {parentRefs: [{name: front}], hostnames: ["*.b.example.com"], rules: [{matches: [{path: {value: /w}}], backendRefs: [{name: wild, port: 80}]}]}`)
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for n := 0; n < len(pairs); n += 2 {
			h.Add(pairs[n], pairs[n+1])
		}
		return h
	}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{Host: "a.example.com", Path: "/"}, "all"},
		{Query{Host: "a.example.com", Path: "/x"}, "exact"},
		{Query{Host: "a.example.com", Path: "/x/17"}, "regex"},
		{Query{Host: "a.example.com", Path: "/x/17/y"}, "prefix"},
		{Query{Host: "a.example.com", Path: "/xy"}, "all"},
		{Query{Host: "a.example.com", Path: "/x/", RawQuery: "q=1"}, "query"},
		{Query{Host: "a.example.com", Path: "/x/", RawQuery: "q=2&q=1"}, "prefix"}, // the first of a name
		{Query{Host: "a.example.com", Path: "/x/", RawQuery: "q=1", Header: header("X-A", "1")}, "header"},
		{Query{Host: "a.example.com", Path: "/x/", Header: header("X-A", "1", "X-B", "bb")}, "two"},
		{Query{Host: "a.example.com", Path: "/x/", Header: header("X-A", "1", "X-B", "bc")}, "header"},
		{Query{Host: "a.example.com", Path: "/x/", Method: "PUT", Header: header("X-A", "1", "X-B", "b")}, "method"},
		{Query{Host: "a.example.com", Path: "/only"}, "other"},
		{Query{Host: "c.example.com", Path: "/x/y"}, "other"},
		{Query{Host: "c.d.example.com", Path: "/x"}, "other"}, // any number of labels
		{Query{Host: "c.b.example.com", Path: "/w"}, "wild"},
		{Query{Host: "c.b.example.com", Path: "/only"}, "other"}, // no path of the nearer host matches
		{Query{Host: "example.com", Path: "/x"}, ""},
		{Query{Host: "a.example.com", Path: "/", Port: 443}, ""}, // the listener's port alone
	} {
		if got := goes(table, tt.q); got != tt.want {
			t.Errorf("%+v goes to %q, want %q", tt.q, got, tt.want)
		}
	}
}

// TestGatewayStatus holds what is told of Gateways and what belongs to them.
func TestGatewayStatus(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.service("shop", "web", "10.0.0.1")
	w.service("other", "web", "10.0.0.2")
	w.secret(t, "cert", "a.example.com")
	w.spaces["other"] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "b"}}}
	w.maps["shop/ca"] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}, Data: map[string]string{"ca.crt": string(w.secrets["shop/cert"].Data[corev1.TLSCertKey])}}
	web := `rules: [{backendRefs: [{name: web, port: 80}]}]`
	for name, tt := range map[string]struct {
		text  string
		lines []string // that are told, among others
		none  []string // that are not
	}{
		"all well": {plainGateway + `{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], ` + web + `}}`, []string{
			"GatewayClass howdah Accepted=True Accepted", "GatewayClass howdah SupportedVersion=True SupportedVersion",
			"Gateway shop/front Accepted=True Accepted", "Gateway shop/front Programmed=True Programmed", "Gateway shop/front ResolvedRefs=True ResolvedRefs", "Gateway shop/front at 192.0.2.1",
			"Gateway shop/front#http Accepted=True Accepted", "Gateway shop/front#http Programmed=True Programmed", "Gateway shop/front#http ResolvedRefs=True ResolvedRefs",
			"Gateway shop/front#http Conflicted=False NoConflicts", "Gateway shop/front#http has 1 routes of 2 kinds",
			"HTTPRoute shop/r at front# Accepted=True Accepted", "HTTPRoute shop/r at front# ResolvedRefs=True ResolvedRefs",
		}, nil},
		"parameters": {`{kind: GatewayClass, metadata: {name: p}, spec: {controllerName: howdah.dev/gateway, parametersRef: {group: "", kind: ConfigMap, name: x}}}
---
{kind: GatewayClass, metadata: {name: theirs}, spec: {controllerName: example.com/other}}
---
{kind: Gateway, metadata: {name: front}, spec: {gatewayClassName: p, listeners: [{name: http, port: 80, protocol: HTTP}]}}`, []string{
			"GatewayClass p Accepted=False InvalidParameters",
		}, []string{"GatewayClass theirs", "Gateway shop/front"}},
		"listeners": {`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [
  {name: tcp, port: 90, protocol: TCP}, {name: kinds, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: TCPRoute}, {kind: HTTPRoute}]}},
  {name: lost, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: gone}]}}, {name: foreign, port: 443, protocol: HTTPS, hostname: b.com, tls: {certificateRefs: [{name: cert, namespace: other}]}},
  {name: good, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: cert}]}}, {name: options, port: 8443, protocol: HTTPS, tls: {options: {a: b}, certificateRefs: [{name: cert}]}},
  {name: tls80, port: 80, protocol: HTTPS, hostname: x, tls: {certificateRefs: [{name: cert}]}}, {name: one, port: 7000, protocol: HTTP, hostname: a}, {name: same, port: 7000, protocol: HTTP, hostname: A}]}}`, []string{
			"Gateway shop/g Accepted=True ListenersNotValid", "Gateway shop/g ResolvedRefs=False ListenersNotResolved",
			"Gateway shop/g#tcp Accepted=False UnsupportedProtocol", "Gateway shop/g#tcp has 0 routes of 0 kinds",
			"Gateway shop/g#kinds ResolvedRefs=False InvalidRouteKinds", "Gateway shop/g#kinds has 0 routes of 1 kinds", "Gateway shop/g#kinds Conflicted=True ProtocolConflict",
			"Gateway shop/g#tls80 Accepted=False ProtocolConflict",
			"Gateway shop/g#lost ResolvedRefs=False InvalidCertificateRef", "Gateway shop/g#lost Programmed=False Invalid", "Gateway shop/g#lost Accepted=True Accepted",
			"Gateway shop/g#lost OverlappingTLSConfig=True OverlappingHostnames",
			"Gateway shop/g#foreign ResolvedRefs=False RefNotPermitted", "Gateway shop/g#good Programmed=True Programmed",
			"Gateway shop/g#options Accepted=False UnsupportedValue",
			"Gateway shop/g#one Conflicted=True HostnameConflict", "Gateway shop/g#same Programmed=False HostnameConflict",
		}, nil},
		"addresses": {`{kind: Gateway, metadata: {name: a}, spec: {gatewayClassName: howdah, addresses: [{value: 192.0.2.9}], listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{kind: Gateway, metadata: {name: b}, spec: {gatewayClassName: howdah, addresses: [{type: example.com/x, value: y}], listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{kind: Gateway, metadata: {name: c}, spec: {gatewayClassName: howdah, addresses: [{type: IPAddress}], listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
{kind: Gateway, metadata: {name: d}, spec: {gatewayClassName: howdah, infrastructure: {parametersRef: {group: "", kind: X, name: y}}, listeners: [{name: http, port: 80, protocol: HTTP}]}}`, []string{
			"Gateway shop/a Accepted=True Accepted", "Gateway shop/a Programmed=False AddressNotUsable", "Gateway shop/b Accepted=False UnsupportedAddress",
			"Gateway shop/c at 192.0.2.1", "Gateway shop/d Accepted=False InvalidParameters", "Gateway shop/d#http Programmed=False Invalid",
		}, []string{"Gateway shop/b at", "Gateway shop/a at"}},
		"ports of others": {plainGateway + `{kind: Gateway, metadata: {name: x}, spec: {gatewayClassName: howdah, listeners: [{name: plain, port: 443, protocol: HTTP}, {name: a, port: 9000, protocol: HTTP}]}}
---
{kind: Gateway, metadata: {name: late}, spec: {gatewayClassName: howdah, listeners: [{name: a, port: 9000, protocol: TLS, tls: {mode: Passthrough}}]}}`, []string{
			"Gateway shop/x#plain Accepted=False PortUnavailable", "Gateway shop/x#a Programmed=True Programmed", "Gateway shop/late#a Accepted=False PortUnavailable",
			"Gateway shop/late Accepted=False ListenersNotValid", "Gateway shop/late Programmed=False Invalid",
		}, nil},
		"attachment": {`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: b}}}}},
  {name: all, port: 81, protocol: HTTP, hostname: b.com, allowedRoutes: {namespaces: {from: All}}}]}}
---
{kind: HTTPRoute, metadata: {name: in, namespace: other}, spec: {hostnames: [x.example.com], parentRefs: [{name: g, namespace: shop}], ` + web + `}}
---
{kind: HTTPRoute, metadata: {name: out}, spec: {parentRefs: [{name: g, sectionName: http}, {name: g, sectionName: none}, {name: g, port: 82}, {name: unknown}], ` + web + `}}
---
{kind: HTTPRoute, metadata: {name: host}, spec: {hostnames: [c.com], parentRefs: [{name: g, sectionName: all}], ` + web + `}}
---
{kind: TLSRoute, metadata: {name: kind}, spec: {hostnames: [b.com], parentRefs: [{name: g, sectionName: all}], ` + web + `}}`, []string{
			"HTTPRoute other/in at g# Accepted=True Accepted", "HTTPRoute shop/out at g#http Accepted=False NotAllowedByListeners", "HTTPRoute shop/out at g#none Accepted=False NoMatchingParent",
			"HTTPRoute shop/out at g# Accepted=False NoMatchingParent", "HTTPRoute shop/host at g#all Accepted=False NoMatchingListenerHostname",
			"TLSRoute shop/kind at g#all Accepted=False NotAllowedByListeners", "Gateway shop/g#http has 1 routes of 2 kinds", "Gateway shop/g#all has 0 routes of 2 kinds",
		}, []string{"HTTPRoute shop/out at unknown"}},
		"backends": {plainGateway + `{kind: HTTPRoute, metadata: {name: kind}, spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{kind: Bucket, group: x, name: web, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: gone}, spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{name: gone, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: far}, spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{name: web, namespace: other, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: filter}, spec: {parentRefs: [{name: front}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: x, kind: Y, name: z}}], backendRefs: [{name: web, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: bad}, spec: {parentRefs: [{name: front}], rules: [{matches: [{path: {type: RegularExpression, value: "("}}]}]}}
---
{kind: HTTPRoute, metadata: {name: half}, spec: {parentRefs: [{name: front}], rules: [{sessionPersistence: {sessionName: s}}, {backendRefs: [{name: web, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: retries}, spec: {parentRefs: [{name: front}], rules: [{retry: {attempts: 2}, backendRefs: [{name: web, port: 80}]}]}}
---
{kind: HTTPRoute, metadata: {name: auth}, spec: {parentRefs: [{name: front}], rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: web, port: 80}}}]}]}}`, []string{
			"HTTPRoute shop/kind at front# ResolvedRefs=False InvalidKind", "HTTPRoute shop/gone at front# ResolvedRefs=False BackendNotFound", "HTTPRoute shop/far at front# ResolvedRefs=False RefNotPermitted",
			"HTTPRoute shop/filter at front# ResolvedRefs=False InvalidKind", "HTTPRoute shop/bad at front# Accepted=False UnsupportedValue",
			"HTTPRoute shop/half at front# Accepted=True Accepted", "HTTPRoute shop/half at front# PartiallyInvalid=True UnsupportedValue",
			"HTTPRoute shop/retries at front# Accepted=False UnsupportedValue", "HTTPRoute shop/auth at front# Accepted=False UnsupportedValue",
		}, nil},
		"grants": {plainGateway + `{kind: ReferenceGrant, metadata: {name: r, namespace: other}, spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}], to: [{group: "", kind: Service, name: web}]}}
---
{kind: HTTPRoute, metadata: {name: far}, spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{name: web, namespace: other, port: 80}]}]}}
---
{kind: GRPCRoute, metadata: {name: grpc}, spec: {hostnames: [g], parentRefs: [{name: front}], rules: [{backendRefs: [{name: web, namespace: other, port: 80}]}]}}`, []string{
			"HTTPRoute shop/far at front# ResolvedRefs=True ResolvedRefs", "GRPCRoute shop/grpc at front# ResolvedRefs=False RefNotPermitted", "GRPCRoute shop/grpc at front# Accepted=False Conflicted",
		}, nil},
		"listener sets": {`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, allowedListeners: {namespaces: {from: Same}}, listeners: [{name: http, port: 80, protocol: HTTP, hostname: a}]}}
---
{kind: ListenerSet, metadata: {name: s}, spec: {parentRef: {name: g}, listeners: [{name: more, port: 80, protocol: HTTP, hostname: b}, {name: taken, port: 80, protocol: HTTP, hostname: a}]}}
---
{kind: ListenerSet, metadata: {name: late}, spec: {parentRef: {name: g}, listeners: [{name: taken, port: 80, protocol: HTTP, hostname: b}]}}
---
{kind: ListenerSet, metadata: {name: s, namespace: other}, spec: {parentRef: {name: g, namespace: shop}, listeners: [{name: more, port: 80, protocol: HTTP, hostname: c}]}}
---
{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{kind: ListenerSet, name: s, sectionName: more}], ` + web + `}}`, []string{
			"Gateway shop/g Accepted=True ListenersNotValid", "Gateway shop/g has 1 sets", "Gateway shop/g#http Programmed=True Programmed",
			"ListenerSet shop/s Accepted=True Accepted", "ListenerSet shop/s#more Programmed=True Programmed", "ListenerSet shop/s#taken Conflicted=True HostnameConflict",
			"ListenerSet shop/late Accepted=False ListenersNotValid", "ListenerSet other/s Accepted=False NotAllowed", "ListenerSet other/s Programmed=False NotAllowed",
			"HTTPRoute shop/r at s#more Accepted=True Accepted",
		}, nil},
		"policies": {plainGateway + `{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], ` + web + `}}
---
{kind: BackendTLSPolicy, metadata: {name: good}, spec: {targetRefs: [{group: "", kind: Service, name: web}], validation: {hostname: a.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}
---
{kind: BackendTLSPolicy, metadata: {name: late}, spec: {targetRefs: [{group: "", kind: Service, name: web}], validation: {hostname: a.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}
---
{kind: BackendTLSPolicy, metadata: {name: idle}, spec: {targetRefs: [{group: "", kind: Service, name: none}], validation: {hostname: a.example.com, wellKnownCACertificates: System}}}`, []string{
			"BackendTLSPolicy shop/good of front Accepted=True Accepted", "BackendTLSPolicy shop/good of front ResolvedRefs=True ResolvedRefs", "BackendTLSPolicy shop/late of front Accepted=False Conflicted",
		}, []string{"BackendTLSPolicy shop/idle"}},
		"a policy without authorities": {plainGateway + `{kind: HTTPRoute, metadata: {name: r}, spec: {parentRefs: [{name: front}], ` + web + `}}
---
{kind: BackendTLSPolicy, metadata: {name: bad}, spec: {targetRefs: [{group: "", kind: Service, name: web}], validation: {hostname: a, caCertificateRefs: [{group: "", kind: Secret, name: ca}]}}}`, []string{
			"BackendTLSPolicy shop/bad of front Accepted=False NoValidCACertificate", "BackendTLSPolicy shop/bad of front ResolvedRefs=False InvalidKind", "HTTPRoute shop/r at front# ResolvedRefs=True ResolvedRefs",
		}, nil},
		"clients' certificates": {`{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, tls: {backend: {clientCertificateRef: {name: gone}}, frontend: {default: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}, perPort: [{port: 8443, tls: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: gone}]}}}]}},
  listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}, {name: b, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]}}`, []string{
			"Gateway shop/g#a Programmed=True Programmed", "Gateway shop/g#b Accepted=False NoValidCACertificate", "Gateway shop/g#b ResolvedRefs=False InvalidCACertificateRef",
			"Gateway shop/g InsecureFrontendValidationMode=True ConfigurationChanged", "Gateway shop/g ResolvedRefs=False InvalidClientCertificateRef", "Gateway shop/g Accepted=True ListenersNotValid",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := gatewayTable(t, w, tt.text)
			all := told(table.Statuses)
			for _, want := range tt.lines {
				if !slices.Contains(all, want) {
					t.Errorf("lacks %q", want)
				}
			}
			for _, not := range tt.none {
				if slices.ContainsFunc(all, func(line string) bool { return strings.HasPrefix(line, not) }) {
					t.Errorf("tells of %q", not)
				}
			}
			if t.Failed() {
				t.Log(strings.Join(all, "\n"))
			}
		})
	}
}

// TestListenersAreApart holds that a request is for the nearest listener of a Gateway alone, and that a port that could not be opened is told of.
func TestListenersAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, s := range []string{"any", "wild", "exact"} {
		w.service("shop", s, "10.0.0.1")
	}
	text := `{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [{name: any, port: 8080, protocol: HTTP}, {name: wild, port: 8080, protocol: HTTP, hostname: "*.example.com"}, {name: exact, port: 8080, protocol: HTTP, hostname: a.example.com}]}}`
	for _, name := range []string{"any", "wild", "exact"} {
		text += fmt.Sprintf("\n---\n{kind: HTTPRoute, metadata: {name: %s}, spec: {parentRefs: [{name: g, sectionName: %s}], rules: [{matches: [{path: {value: /%s}}], backendRefs: [{name: %s, port: 80}]}]}}", name, name, name, name)
	}
	table := gatewayTable(t, w, text)
	for _, tt := range []struct{ host, path, want string }{
		{"a.example.com", "/exact", "exact"}, {"a.example.com", "/wild", ""}, {"a.example.com", "/any", ""},
		{"b.example.com", "/wild", "wild"}, {"b.example.com", "/any", ""}, {"b.com", "/any", "any"}, {"b.com", "/wild", ""},
	} {
		if got := goes(table, Query{Port: 8080, Host: tt.host, Path: tt.path}); got != tt.want {
			t.Errorf("%s%s goes to %q, want %q", tt.host, tt.path, got, tt.want)
		}
	}
	if len(table.Ports) != 1 || table.Ports[8080] {
		t.Errorf("ports %v", table.Ports)
	}
	from := sources(t, text)
	from.Closed = map[int32]string{8080: "address already in use"}
	closed := new(Builder).Build(Sources{Classes: mine, Gateways: from}, w, now)
	if all := told(closed.Statuses); !slices.Contains(all, "Gateway shop/g#any Accepted=False PortUnavailable") || !slices.Contains(all, "Gateway shop/g Programmed=False Invalid") {
		t.Errorf("a closed port: %q", all)
	}
	if _, asked := closed.Ports[8080]; !asked {
		t.Error("a port that is closed is not asked for again")
	}
}

// TestBesideIngresses holds that both sources make one table.
func TestBesideIngresses(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, s := range []string{"ingress", "route", "fallback"} {
		w.service("shop", s, "10.0.0.1")
	}
	text := plainGateway + `{kind: HTTPRoute, metadata: {name: r, creationTimestamp: %q}, spec: {hostnames: [a.com], parentRefs: [{name: front}], rules: [{matches: [{path: {value: /both}}, {path: {value: /route}}], backendRefs: [{name: route, port: 80}]}]}}`
	for name, tt := range map[string]struct{ created, want string }{"older": {"2020-01-01T00:00:00Z", "route"}, "younger": {"2026-01-02T03:04:04Z", "ingress"}} {
		i := ingress("i", 60, rule("a.com", prefix("/both", "ingress"), prefix("/ingress", "ingress")))
		d := ingress("d", 60)
		d.Spec.DefaultBackend = to("fallback", "80")
		table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{i, d}, Classes: mine, Gateways: sources(t, fmt.Sprintf(text, tt.created))}, w, now)
		for path, want := range map[string]string{"/both": tt.want, "/route": "route", "/ingress": "ingress", "/none": "fallback"} {
			if got := goes(table, Query{Host: "a.com", Path: path}); got != want {
				t.Errorf("%s route, %s goes to %q, want %q", name, path, got, want)
			}
		}
		if got := goes(table, Query{Port: 8080, Host: "a.com", Path: "/ingress"}); got != "" {
			t.Errorf("an Ingress at another port goes to %q", got)
		}
	}
}

// TestGRPCMethods holds that methods are paths, and backends are asked over HTTP/2.
func TestGRPCMethods(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, s := range []string{"all", "service", "method", "exact", "regex"} {
		w.service("shop", s, "10.0.0.1")
	}
	table := gatewayTable(t, w, plainGateway+`
kind: GRPCRoute
metadata: {name: r}
spec:
  parentRefs: [{name: front}]
  rules:
  - {backendRefs: [{name: all, port: 80}]}
  - {matches: [{method: {service: a.B}}], backendRefs: [{name: service, port: 80}]}
  - {matches: [{method: {service: a.B, method: C}}], backendRefs: [{name: exact, port: 80}]}
  - {matches: [{method: {method: D}}], backendRefs: [{name: method, port: 80}]}
  - {matches: [{method: {type: RegularExpression, service: "x[0-9]", method: "E|F"}}], backendRefs: [{name: regex, port: 80}]}`)
	for path, want := range map[string]string{"/a.B/C": "exact", "/a.B/X": "service", "/q/D": "method", "/q/X": "all", "/x1/F": "regex", "/xx/F": "all"} {
		if got := goes(table, Query{Host: "a", Path: path, Method: "POST"}); got != want {
			t.Errorf("%s goes to %q, want %q", path, got, want)
		}
	}
	if r := table.Find(&Query{Port: PlainPort, Host: "a", Path: "/a.B/C"}); r.Rule.Target().Backend.Protocol != H2C {
		t.Errorf("spoken to by %q", r.Rule.Target().Backend.Protocol)
	}
}

// TestStreams holds which connections of TLS a TLSRoute takes, beside listeners of HTTPS and Ingresses.
func TestStreams(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.service("shop", "web", "10.0.0.1")
	w.secret(t, "cert", "https.example.com")
	w.secret(t, "ingress", "i.example.com")
	i := ingress("i", 1, rule("i.example.com", prefix("/", "web")))
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"i.example.com"}, SecretName: "ingress"}}
	table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{i}, Classes: mine, Gateways: sources(t, `{kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: howdah, listeners: [
  {name: pass, port: 443, protocol: TLS, hostname: "*.example.com", tls: {mode: Passthrough}}, {name: https, port: 443, protocol: HTTPS, hostname: https.example.com, tls: {certificateRefs: [{name: cert}]}},
  {name: ends, port: 443, protocol: TLS, hostname: ends.com, tls: {mode: Terminate, certificateRefs: [{name: cert}]}}]}}
---
{kind: TLSRoute, metadata: {name: r}, spec: {hostnames: ["*.example.com", ends.com], parentRefs: [{name: g}], rules: [{backendRefs: [{name: web, port: 80}]}]}}`)}, w, now)
	for name, want := range map[string]string{"a.example.com": "as it is", "a.b.example.com": "as it is", "https.example.com": "https", "i.example.com": "ingress", "ends.com": "within", "other.com": ""} {
		got := ""
		if s := table.Stream(SecurePort, name); s != nil {
			got = map[bool]string{true: "within", false: "as it is"}[s.Ends]
		} else if l, c := table.Identity(SecurePort, name); l != nil {
			got = l.Name
		} else if c != nil {
			got = c.Leaf.Subject.CommonName
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !table.Streams(SecurePort) || table.Streams(8443) {
		t.Error("ports with streams")
	}
}

// TestExample holds that the manifest that users are given is a good one.
func TestExample(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../examples/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.service("shop", "tea", "10.0.0.1")
	w.service("shop", "coffee", "10.0.0.2")
	w.secret(t, "shops", "tea.example.net")
	var ours []string
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		if strings.Contains(doc, "apiVersion: gateway.networking.k8s.io/") {
			ours = append(ours, doc)
		}
	}
	table := gatewayTable(t, w, strings.Join(ours, "\n---\n"))
	for _, line := range told(table.Statuses) {
		if strings.Contains(line, "=False") && !strings.Contains(line, "Conflicted=False") {
			t.Error(line)
		}
	}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{Host: "tea.example.net", Path: "/"}, "tea"}, {Query{Host: "tea.example.net", Path: "/", Header: http.Header{"X-Taste": {"strong"}}}, "coffee"},
		{Query{Host: "coffee.example.net", Path: "/menu"}, "coffee"}, {Query{Host: "tea.example.net", Path: "/", Port: SecurePort}, "tea"}, {Query{Host: "coffee.example.net", Path: "/", Port: SecurePort}, ""},
	} {
		if got := goes(table, tt.q); got != tt.want {
			t.Errorf("%+v goes to %q, want %q", tt.q, got, tt.want)
		}
	}
}

// FuzzWithin holds that what two hostnames have in common stands for the names that both stand for.
func FuzzWithin(f *testing.F) {
	f.Add("*.example.com", "a.example.com", "b.a.example.com")
	f.Add("", "*.com", "x.com")
	f.Add("*.a.com", "*.b.a.com", "c.b.a.com")
	f.Fuzz(func(t *testing.T, a, b, name string) {
		if strings.Contains(strings.TrimPrefix(a, "*."), "*") || strings.Contains(strings.TrimPrefix(b, "*."), "*") || strings.Contains(name, "*") || name == "" {
			return
		}
		both, ok := within(a, b)
		if want := covers(a, name) && covers(b, name); want != (ok && covers(both, name)) {
			t.Errorf("%q and %q have %q (%v), and %q: %v", a, b, both, ok, name, want)
		}
	})
}

// BenchmarkFindAmongRoutes is BenchmarkLookup with Gateways' routes.
func BenchmarkFindAmongRoutes(b *testing.B) {
	for _, routes := range []int{10, 10_000} {
		b.Run(fmt.Sprint(routes), func(b *testing.B) {
			var text strings.Builder
			text.WriteString(strings.TrimSuffix(plainGateway, "\n---\n"))
			for n := range routes / 10 {
				fmt.Fprintf(&text, "\n---\n{kind: HTTPRoute, metadata: {name: r%d}, spec: {hostnames: [h%d.example.com], parentRefs: [{name: front}], rules: [{matches: [", n, n)
				for p := range 10 {
					fmt.Fprintf(&text, "{path: {value: /api/v1/p%d}},", p)
				}
				text.WriteString("]}]}}")
			}
			table := gatewayTable(b, newWorld(), text.String())
			q := Query{Port: PlainPort, Host: fmt.Sprintf("h%d.example.com", routes/20), Path: "/api/v1/p7/items/42", Method: "GET"}
			b.ReportAllocs()
			for b.Loop() {
				if table.Find(&q) == nil {
					b.Fatal("no route")
				}
			}
		})
	}
}
