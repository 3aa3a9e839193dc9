package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

// TestExamplesOfKubernetes has the table of examples of Kubernetes' page about Ingress: services are named after the paths.
func TestExamplesOfKubernetes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rules   string // kind and path, separated by commas
		request string
		want    string // the rule's path; "default" for the default backend
	}{
		{"Prefix /", "/", "/"},
		{"Prefix /", "/anything/at/all", "/"},
		{"Exact /foo", "/foo", "/foo"},
		{"Exact /foo", "/bar", "default"},
		{"Exact /foo", "/foo/", "default"},
		{"Exact /foo/", "/foo", "default"},
		{"Prefix /foo", "/foo", "/foo"},
		{"Prefix /foo", "/foo/", "/foo"},
		{"Prefix /foo/", "/foo", "/foo/"},
		{"Prefix /foo/", "/foo/", "/foo/"},
		{"Prefix /aaa/bb", "/aaa/bbb", "default"},
		{"Prefix /aaa/bbb", "/aaa/bbb", "/aaa/bbb"},
		{"Prefix /aaa/bbb/", "/aaa/bbb", "/aaa/bbb/"},
		{"Prefix /aaa/bbb", "/aaa/bbb/", "/aaa/bbb"},
		{"Prefix /aaa/bbb", "/aaa/bbb/ccc", "/aaa/bbb"},
		{"Prefix /aaa/bbb", "/aaa/bbbxyz", "default"},
		{"Prefix /,Prefix /aaa", "/aaa/ccc", "/aaa"},
		{"Prefix /,Prefix /aaa,Prefix /aaa/bbb", "/aaa/bbb", "/aaa/bbb"},
		{"Prefix /,Prefix /aaa,Prefix /aaa/bbb", "/ccc", "/"},
		{"Prefix /aaa", "/ccc", "default"},
		{"Prefix /foo,Exact /foo", "/foo", "exact /foo"},
		// Beyond the page: what is left to implementations is a prefix, and an empty path is all paths.
		{"ImplementationSpecific ", "/foo", ""},
		{"ImplementationSpecific /foo", "/foo/bar", "/foo"},
		// Percent-encoding says nothing, but for slashes within an element.
		{"Prefix /caf%C3%A9", "/caf\u00e9/x", "/caf%C3%A9"},
		{"Prefix /caf\u00e9", "/caf%c3%a9", "/caf\u00e9"},
		{"Prefix /a/b", "/a%2Fb", "default"},
		{"Exact /a%2Fb", "/a%2fb", "/a%2Fb"},
		{"Exact /a%2Fb", "/a%252Fb", "default"},
		{"Prefix /foo", "//foo", "default"},
		{"Prefix /foo", "/foo//bar", "/foo"},
	} {
		t.Run(tt.rules+" "+tt.request, func(t *testing.T) {
			t.Parallel()
			i := ingress("i", 0, rule("x.example.com"))
			i.Spec.DefaultBackend = to("default", "80")
			i.Spec.Rules[0].HTTP = &networkingv1.HTTPIngressRuleValue{}
			for text := range strings.SplitSeq(tt.rules, ",") {
				kind, path, _ := strings.Cut(text, " ")
				service := path
				if kind == "Exact" && strings.Contains(tt.rules, ",") {
					service = "exact " + path
				}
				p := prefix(path, service)
				p.PathType = ptr.To(networkingv1.PathType(kind))
				i.Spec.Rules[0].HTTP.Paths = append(i.Spec.Rules[0].HTTP.Paths, p)
			}
			table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{i}, Classes: mine}, newWorld(), now)
			if got := where(table, "x.example.com", tt.request); got != tt.want {
				t.Errorf("%s goes to %q, want %q", tt.request, got, tt.want)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	withDefault := func(i *networkingv1.Ingress, service string) *networkingv1.Ingress {
		i.Spec.DefaultBackend = to(service, "80")
		return i
	}
	table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{
		ingress("hosts", 9, rule("a.foo.com", prefix("/a", "exact")), rule("*.foo.com", prefix("/", "wild"), prefix("/a", "wild-a"))),
		ingress("all", 8, rule("", prefix("/all", "all"))),
		withDefault(ingress("bar", 7, rule("bar.com", prefix("/x", "bar-x")), rule("empty.com")), "bar"),
		withDefault(ingress("later", 6), "later"),
	}, Classes: mine}, newWorld(), now)
	for _, tt := range []struct{ host, path, want string }{
		{"a.foo.com", "/a", "exact"},
		{"a.foo.com", "/b", "wild"}, // no path of the exact host matches
		{"b.foo.com", "/a", "wild-a"},
		{"foo.com", "/", "bar"},      // a wildcard is not for the domain itself: the oldest default backend
		{"c.b.foo.com", "/", "bar"},  // nor for two labels
		{"foo.com", "/all/x", "all"}, // a rule without a host is for all
		{"b.foo.com", "/all", "wild"},
		{"bar.com", "/x/y", "bar-x"},
		{"bar.com", "/y", "bar"},
		{"empty.com", "/", "bar"},
		{"", "/all", "all"},
		{"", "/", "bar"},
	} {
		if got := where(table, tt.host, tt.path); got != tt.want {
			t.Errorf("%s%s goes to %q, want %q", tt.host, tt.path, got, tt.want)
		}
	}
	if table.Routes != 8 || len(table.Known) != 4 {
		t.Errorf("%d routes of %v", table.Routes, table.Known)
	}
	if got := lookup(new(Builder).Build(Sources{Classes: mine}, newWorld(), now), "x", "/"); got != nil {
		t.Errorf("an empty table leads to %v", got)
	}
}

func TestOlderIngressWins(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for _, s := range []string{"old", "young"} {
		w.service("shop", s)
	}
	for _, swapped := range []bool{false, true} {
		list := []*networkingv1.Ingress{
			ingress("young", 1, rule("a.com", prefix("/x", "young"), exact("/e", "young"), prefix("/y", "young"))),
			ingress("old", 2, rule("a.com", prefix("/x/", "old"), exact("/e", "old"))),
		}
		if swapped {
			list[0], list[1] = list[1], list[0]
		}
		table := new(Builder).Build(Sources{Ingresses: list, Classes: mine}, w, now)
		if x, e, y := where(table, "a.com", "/x"), where(table, "a.com", "/e"), where(table, "a.com", "/y"); x != "old" || e != "old" || y != "young" {
			t.Errorf("/x %s, /e %s, /y %s", x, e, y)
		}
		if diff := cmp.Diff([]string{
			`young PathConflict: shop/old has the path "/x" of the host "a.com" already: it is not served from here`,
			`young PathConflict: shop/old has the path "/e" of the host "a.com" already: it is not served from here`,
		}, texts(table.Faults)); diff != "" {
			t.Error(diff)
		}
	}
	// Of the same age, the first by namespace and name.
	table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{ingress("b", 1, rule("a.com", prefix("/", "young"))), ingress("a", 1, rule("a.com", prefix("/", "old")))}, Classes: mine}, w, now)
	if got := where(table, "a.com", "/"); got != "old" {
		t.Errorf("/ goes to %s", got)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	class := func(name, controller string, age int, isDefault bool) *networkingv1.IngressClass {
		c := &networkingv1.IngressClass{ObjectMeta: ingress(name, age).ObjectMeta, Spec: networkingv1.IngressClassSpec{Controller: controller}}
		c.Namespace = ""
		if isDefault {
			c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
		}
		return c
	}
	of := func(field, annotation *string) *networkingv1.Ingress {
		i := ingress("i", 0)
		i.Spec.IngressClassName = field
		if annotation != nil {
			i.Annotations = map[string]string{classAnnotation: *annotation}
		}
		return i
	}
	us, them := class("us", Controller, 5, false), class("them", "example.com/other", 5, false)
	for _, tt := range []struct {
		name              string
		classes           []*networkingv1.IngressClass
		field, annotation *string
		want              bool
	}{
		{"named", []*networkingv1.IngressClass{us, them}, ptr.To("us"), nil, true},
		{"named otherwise", []*networkingv1.IngressClass{us, them}, ptr.To("them"), nil, false},
		{"named unknown", []*networkingv1.IngressClass{us}, ptr.To("gone"), nil, false},
		{"annotated", []*networkingv1.IngressClass{us, them}, nil, ptr.To("us"), true},
		{"annotated otherwise", []*networkingv1.IngressClass{us, them}, nil, ptr.To("them"), false},
		{"the annotation goes first", []*networkingv1.IngressClass{us, them}, ptr.To("us"), ptr.To("them"), false},
		{"no class, no default", []*networkingv1.IngressClass{us, them}, nil, nil, false},
		{"no class, ours is the default", []*networkingv1.IngressClass{class("us", Controller, 5, true), them}, nil, nil, true},
		{"no class, theirs is the default", []*networkingv1.IngressClass{us, class("them", "example.com/other", 5, true)}, nil, nil, false},
		{"the newest default counts", []*networkingv1.IngressClass{class("us", Controller, 5, true), class("them", "example.com/other", 4, true)}, nil, nil, false},
	} {
		if got := NewClasses(tt.classes, Controller).Own(of(tt.field, tt.annotation)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	us.Spec.Parameters = &networkingv1.IngressClassParametersReference{Kind: "X", Name: "x"}
	table := new(Builder).Build(Sources{Ingresses: nil, Classes: NewClasses([]*networkingv1.IngressClass{us}, Controller)}, newWorld(), now)
	if got := texts(table.Faults); len(got) != 1 || !strings.HasPrefix(got[0], "us ParametersNotSupported: ") {
		t.Errorf("faults %q", got)
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.service("shop", "web", "10.0.0.2", "10.0.0.1", "10.0.0.2", "127.0.0.1", "169.254.169.254")
	w.service("shop", "idle")
	outside := w.service("shop", "outside")
	outside.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	udp := w.service("shop", "udp", "10.0.0.1")
	udp.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolUDP}}
	secure := w.service("shop", "secure", "10.0.0.3")
	secure.Spec.Ports[0].AppProtocol, secure.Spec.SessionAffinity = ptr.To("HTTPS"), corev1.ServiceAffinityClientIP
	w.service("shop", "h2c", "10.0.0.3").Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c")
	w.service("shop", "ws", "10.0.0.3").Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/ws")
	w.service("other", "far", "10.0.0.9")
	resource := &networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	for _, tt := range []struct {
		name    string
		backend *networkingv1.IngressBackend
		want    string // protocol, stickiness, endpoints; or the fault
	}{
		{"by number", to("web", "80"), "http [10.0.0.1:8080 10.0.0.2:8080]"},
		{"by name", to("web", "http"), "http [10.0.0.1:8080 10.0.0.2:8080]"},
		{"without endpoints", to("idle", "80"), "http []"},
		{"https, sticky", to("secure", "80"), "https sticky [10.0.0.3:8080]"},
		{"h2c", to("h2c", "80"), "h2c [10.0.0.3:8080]"},
		{"ws", to("ws", "80"), "http [10.0.0.3:8080]"},
		{"no such service", to("gone", "80"), `i ServiceNotFound: the Service "gone" does not exist`},
		{"of another namespace", to("far", "80"), `i ServiceNotFound: the Service "far" does not exist`},
		{"no such port", to("web", "81"), `i ServicePortNotFound: the Service "web" has no port "81" over TCP`},
		{"no such name", to("web", "https"), `i ServicePortNotFound: the Service "web" has no port "https" over TCP`},
		{"external name", to("outside", "80"), `i BackendNotSupported: the Service "outside" is of the type ExternalName: this controller serves the endpoints of Services alone`},
		{"udp", to("udp", "http"), `i BackendNotSupported: the port "http" of the Service "udp" is not TCP`},
		{"udp by number", to("udp", "80"), `i ServicePortNotFound: the Service "udp" has no port "80" over TCP`},
		{"resource", resource, `i BackendNotSupported: the backend is a resource (Bucket "b"): this controller serves Services alone`},
	} {
		i := ingress("i", 0)
		i.Spec.DefaultBackend = tt.backend
		table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{i}, Classes: mine}, w, now)
		b := lookup(table, "x", "/").Backend
		got := string(b.Protocol)
		if b.Sticky {
			got += " sticky"
		}
		var endpoints []string
		for _, e := range b.Endpoints {
			endpoints = append(endpoints, e.Address)
		}
		got += fmt.Sprint(" ", endpoints)
		if len(table.Faults) > 0 {
			got = strings.Join(texts(table.Faults), "; ")
			if b.Problem == "" || len(b.Endpoints) > 0 {
				t.Errorf("%s: a fault, and the backend %+v", tt.name, b)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	endpoint := func(address string, ready, serving, terminating *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}}
	}
	yes, no := ptr.To(true), ptr.To(false)
	slice := func(port string, number int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}, Endpoints: endpoints}
	}
	for _, tt := range []struct {
		name   string
		slices []*discoveryv1.EndpointSlice
		want   string
	}{
		{"ready, or not known to be otherwise", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("10.0.0.1", yes, yes, no), endpoint("10.0.0.2", nil, nil, nil), endpoint("10.0.0.3", no, no, no))}, "[10.0.0.1:80 10.0.0.2:80]"},
		{"ready ones before those that go", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("10.0.0.1", no, yes, yes)), slice("http", 81, endpoint("10.0.0.2", yes, yes, no))}, "[10.0.0.2:81]"},
		{"those that go, without others", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("10.0.0.1", no, yes, yes), endpoint("10.0.0.2", no, no, yes))}, "[10.0.0.1:80]"},
		{"another port", []*discoveryv1.EndpointSlice{slice("admin", 80, endpoint("10.0.0.1", yes, nil, nil))}, "[]"},
		{"the first family", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("10.0.0.1", yes, nil, nil)), slice("http", 80, endpoint("fd00::1", yes, nil, nil))}, "[10.0.0.1:80]"},
		{"the other family, alone", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("fd00::1", yes, nil, nil))}, "[[fd00::1]:80]"},
		{"names", []*discoveryv1.EndpointSlice{slice("http", 80, endpoint("web.example.com", yes, nil, nil))}, "[]"},
	} {
		if got := fmt.Sprint(rotation(tt.slices, "http", corev1.IPv4Protocol)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestEndpointsAndCertificatesStay holds that the next table has the same ones, and none that went.
func TestEndpointsAndCertificatesStay(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.service("shop", "web", "10.0.0.1", "10.0.0.2")
	secret := w.secret(t, "cert", "a.com")
	i := ingress("i", 0, rule("a.com", prefix("/", "web")))
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.com"}, SecretName: "cert"}}
	var b Builder
	build := func() *Table { return b.Build(Sources{Ingresses: []*networkingv1.Ingress{i}, Classes: mine}, w, now) }
	first := build()
	w.service("shop", "web", "10.0.0.2", "10.0.0.3")
	second := build()
	if a, b := lookup(first, "a.com", "/").Backend.Endpoints[1], lookup(second, "a.com", "/").Backend.Endpoints[0]; a != b {
		t.Errorf("%s is another endpoint than before", a.Address)
	}
	if first.certificates.find("a.com") == nil || first.certificates.find("a.com") != second.certificates.find("a.com") {
		t.Error("the certificate was parsed again")
	}
	secret = secret.DeepCopy()
	secret.ResourceVersion = "2"
	w.secrets["shop/cert"] = secret
	if build().certificates.find("a.com") == first.certificates.find("a.com") {
		t.Error("the changed Secret was not read")
	}
	if len(b.endpoints) != 2 || len(b.kept.pairs) != 1 {
		t.Errorf("%d endpoints and %d certificates are kept", len(b.endpoints), len(b.kept.pairs))
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.service("shop", "web", "10.0.0.1")
	w.secret(t, "a", "a.com")
	w.secret(t, "wild", "*.foo.com")
	w.secret(t, "rules", "r.com")
	w.secret(t, "older", "a.com")
	broken := w.secret(t, "broken", "b.com")
	broken.Data[corev1.TLSPrivateKeyKey] = []byte("x")
	i := ingress("i", 2, rule("r.com", prefix("/", "web")), rule("", prefix("/", "web")))
	i.Spec.TLS = []networkingv1.IngressTLS{
		{Hosts: []string{"a.com"}, SecretName: "a"}, {Hosts: []string{"*.foo.com", "foo.com"}, SecretName: "wild"},
		{Hosts: []string{"b.com"}, SecretName: "broken"}, {Hosts: []string{"c.com"}, SecretName: "gone"}, {Hosts: []string{"d.com"}},
	}
	later := ingress("later", 1, rule("r.com", prefix("/later", "web")))
	later.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "rules"}, {Hosts: []string{"a.com"}, SecretName: "older"}}
	off := ingress("off", 0, rule("off.com", prefix("/", "web")))
	off.Spec.TLS, off.Annotations = []networkingv1.IngressTLS{{Hosts: []string{"off.com"}}}, map[string]string{RedirectAnnotation: "false"}
	odd := ingress("odd", 0, rule("odd.com", prefix("/", "web")))
	odd.Spec.TLS, odd.Annotations = []networkingv1.IngressTLS{{Hosts: []string{"odd.com"}}}, map[string]string{RedirectAnnotation: "no"}
	table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{i, later, off, odd}, Classes: mine}, w, now)
	for name, want := range map[string]string{"a.com": "a", "x.foo.com": "wild", "foo.com": "wild", "x.y.foo.com": "", "b.com": "", "c.com": "", "d.com": "", "r.com": "rules", "": ""} {
		got := ""
		if c := table.certificates.find(name); c != nil {
			got = c.Leaf.Subject.CommonName
		}
		if got != want {
			t.Errorf("%q has the certificate %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"a.com": true, "x.foo.com": true, "c.com": true, "d.com": true, "none.com": false, "off.com": false, "odd.com": true} {
		if got := lookup(table, name, "/").Redirects(name); got != want {
			t.Errorf("%s is redirected: %v", name, got)
		}
	}
	if got := lookup(table, "r.com", "/later").Redirects("r.com"); !got {
		t.Error("a section without hosts is not for those of the rules")
	}
	all := strings.Join(texts(table.Faults), "\n")
	for _, want := range []string{
		`i InvalidCertificate: the Secret "wild": x509: certificate is valid for *.foo.com, not foo.com`,
		`i InvalidCertificate: the Secret "broken": no certificate with its key: `,
		`i SecretNotFound: there is no Secret "gone" of the type kubernetes.io/tls: the default certificate is served`,
		`odd InvalidAnnotation: `,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nlacks %s", all, want)
		}
	}
	if len(table.Faults) != 4 {
		t.Errorf("%d faults:\n%s", len(table.Faults), all)
	}
	expired := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{later}, Classes: mine}, w, now.AddDate(2, 0, 0))
	if got := texts(expired.Faults); len(got) != 2 || !strings.Contains(got[0], "has ended at 2027-01-02T03:04:05Z") {
		t.Errorf("faults %q", got)
	}
}

func TestClimbs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": false, "/a/b": false, "/a/../b": true, "/a/..": true, "/./a": true, "/a/%2e%2E/b": true, "/a/.b/..c": false, "/a.b": false, "/%2F..": false, "/a%20b": false,
	} {
		if got := Climbs(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// FuzzLookup holds that a prefix matches exactly the paths that begin with its elements.
func FuzzLookup(f *testing.F) {
	f.Add("/a/b", "/a/b/c")
	f.Add("/", "/%2f")
	f.Add("/a//b/", "//a%2")
	f.Fuzz(func(t *testing.T, rulePath, path string) {
		if !strings.HasPrefix(rulePath, "/") || !strings.HasPrefix(path, "/") {
			return
		}
		table := new(Builder).Build(Sources{Ingresses: []*networkingv1.Ingress{ingress("i", 0, rule("", prefix(rulePath, "web")))}, Classes: mine}, newWorld(), now)
		want, got := elements(canonical(rulePath)), strings.Split(strings.TrimPrefix(canonical(path), "/"), "/")
		matches := len(got) >= len(want)
		for n := range want {
			matches = matches && got[n] == want[n]
		}
		if found := lookup(table, "x", path) != nil; found != matches {
			t.Errorf("prefix %q, path %q: %v, want %v", rulePath, path, found, matches)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for _, routes := range []int{10, 10_000} {
		b.Run(fmt.Sprint(routes), func(b *testing.B) {
			var list []*networkingv1.Ingress
			for n := range routes / 10 {
				i := ingress(fmt.Sprint("i", n), 0, rule(fmt.Sprintf("h%d.example.com", n)))
				i.Spec.Rules[0].HTTP = &networkingv1.HTTPIngressRuleValue{}
				for p := range 10 {
					i.Spec.Rules[0].HTTP.Paths = append(i.Spec.Rules[0].HTTP.Paths, prefix(fmt.Sprintf("/api/v1/p%d", p), "web"))
				}
				list = append(list, i)
			}
			table := new(Builder).Build(Sources{Ingresses: list, Classes: mine}, newWorld(), now)
			host := fmt.Sprintf("h%d.example.com", routes/20)
			b.ReportAllocs()
			for b.Loop() {
				if lookup(table, host, "/api/v1/p7/items/42") == nil {
					b.Fatal("no route")
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	w := newWorld()
	w.service("shop", "web", "10.0.0.1")
	var list []*networkingv1.Ingress
	for n := range 1000 {
		list = append(list, ingress(fmt.Sprint("i", n), 0, rule(fmt.Sprintf("h%d.example.com", n), prefix("/", "web"), exact("/health", "web"))))
	}
	var builder Builder
	for b.Loop() {
		builder.Build(Sources{Ingresses: list, Classes: mine}, w, now)
	}
	b.ReportMetric(float64(len(list)), "ingresses")
}
