package ingress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pki"
)

// fixture is a controller with its API, whose endpoints, whatever their addresses, are servers that say their address.
type fixture struct {
	t           *testing.T
	api         *objecttest.Server
	client      *object.Client
	http, https string
	reachable   chan struct{}
	server      *Server
}

func setup(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, reachable: make(chan struct{})}
	f.api, f.client = objecttest.Start(t)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	cfg := Config{
		Objects: f.client, Holder: "test", HTTP: listen(), HTTPS: listen(), Controller: Controller, PublishAddresses: []string{"192.0.2.1"},
		MaxConnections: 100, HeaderTimeout: 10 * time.Second, AnswerTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, DrainPeriod: time.Second,
		Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Dial: f.dial,
		Reachable: func(ctx context.Context) bool {
			select {
			case <-f.reachable:
				return true
			case <-ctx.Done():
				return false
			}
		},
	}
	if change != nil {
		change(&cfg)
	}
	f.http, f.https = cfg.HTTP.Addr().String(), cfg.HTTPS.Addr().String()
	var err error
	if f.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs the server until the test ends.
func (f *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.server.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("ended with %v", err)
		}
	})
}

// dial connects to a server of its own that says which address was dialled.
func (f *fixture) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, address) }))
	f.t.Cleanup(s.CloseClientConnections)
	var d net.Dialer
	return d.DialContext(ctx, network, s.Listener.Addr().String())
}

func create[T object.Object](f *fixture, kind object.Kind[T], o T) T {
	f.t.Helper()
	out, err := object.For(f.client, kind).Create(f.t.Context(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func update[T object.Object](f *fixture, kind object.Kind[T], namespace, name string, change func(T)) {
	f.t.Helper()
	r := object.For(f.client, kind)
	for { // the controller writes, too
		o, err := r.Get(f.t.Context(), namespace, name)
		if err != nil {
			f.t.Fatal(err)
		}
		change(o)
		_, err = r.Update(f.t.Context(), o)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "has been modified") {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) service(name, address string) {
	f.t.Helper()
	create(f, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	create(f, object.EndpointSlice, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	})
}

func (f *fixture) class(name string) {
	f.t.Helper()
	create(f, object.IngressClass, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: Controller}})
}

func ingressOf(name, class string, services ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.IngressSpec{IngressClassName: &class}}
	for _, s := range services {
		i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: s + ".example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: s, Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}}})
	}
	return i
}

// get asks for a host and returns code and text.
func (f *fixture) get(host string) string {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.http+"/", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
}

// until asks until what it is told is as wanted: nothing tells of the change.
func until(t *testing.T, want string, ask func() string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got := ask()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it stays %q, want %q", got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *fixture) address(name string) func() string {
	return func() string {
		i, err := object.For(f.client, object.Ingress).Get(f.t.Context(), "shop", name)
		if err != nil {
			f.t.Fatal(err)
		}
		return fmt.Sprint(i.Status.LoadBalancer.Ingress)
	}
}

const published = "[{192.0.2.1  []}]"

// TestObjectsBecomeRoutes changes each kind of object in turn and looks at what the proxy answers.
func TestObjectsBecomeRoutes(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.class("howdah")
	f.service("tea", "10.0.0.1")
	create(f, object.Ingress, ingressOf("shops", "howdah", "tea", "coffee"))
	f.run()
	answer := make(chan string, 1)
	go func() { answer <- f.get("tea.example.com") }()
	select {
	case got := <-answer:
		t.Fatalf("%s, before endpoints can be reached", got)
	case <-time.After(50 * time.Millisecond):
	}
	close(f.reachable)
	if got := <-answer; got != "200 10.0.0.1:8080" || !f.server.Ready(t.Context()) {
		t.Fatal(got)
	}
	ask := func(host string) func() string { return func() string { return f.get(host) } }
	until(t, published, f.address("shops"))
	until(t, "503 there is no backend for this path now", ask("coffee.example.com"))

	f.service("coffee", "10.0.0.2") // Services and endpoints
	until(t, "200 10.0.0.2:8080", ask("coffee.example.com"))
	update(f, object.EndpointSlice, "shop", "coffee", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.0.0.3" })
	until(t, "200 10.0.0.3:8080", ask("coffee.example.com"))
	update(f, object.EndpointSlice, "shop", "coffee", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" })
	until(t, "503 there is no backend for this path now", ask("coffee.example.com"))

	update(f, object.Ingress, "shop", "shops", func(i *networkingv1.Ingress) { i.Spec.Rules = i.Spec.Rules[:1] }) // rules
	until(t, "404 there is nothing at this host and path", ask("coffee.example.com"))

	authority, err := pki.NewAuthority(time.Now()) // Secrets
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "tea", Hosts: []string{"tea.example.com"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	update(f, object.Ingress, "shop", "shops", func(i *networkingv1.Ingress) {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"tea.example.com"}, SecretName: "tea"}}
	})
	name := func() string {
		conn, err := tls.Dial("tcp", f.https, &tls.Config{ServerName: "tea.example.com", InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	until(t, "howdah ingress default certificate", name)
	create(f, object.Secret, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tea"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	})
	until(t, "tea", name)
	update(f, object.Ingress, "shop", "shops", func(i *networkingv1.Ingress) { i.Spec.TLS = nil })
	until(t, "howdah ingress default certificate", name)

	f.class("second") // classes
	create(f, object.Ingress, ingressOf("more", "third", "coffee"))
	update(f, object.Ingress, "shop", "shops", func(i *networkingv1.Ingress) { i.Spec.IngressClassName = ptr.To("third") })
	until(t, "404 there is nothing at this host and path", ask("tea.example.com"))
	f.class("third")
	until(t, "200 10.0.0.1:8080", ask("tea.example.com"))
	until(t, published, f.address("more"))
}

func TestEventsTellOfFaults(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.run()
	close(f.reachable)
	f.class("howdah")
	create(f, object.Ingress, ingressOf("shops", "howdah", "gone"))
	until(t, `Ingress shop/shops Warning ServiceNotFound: the Service "gone" does not exist`, func() string {
		events, _, err := object.For(f.client, object.Event).List(t.Context(), "shop", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, e := range events {
			texts = append(texts, fmt.Sprintf("%s %s/%s %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Type, e.Reason, e.Message))
		}
		return strings.Join(texts, "\n")
	})
}

// TestAddressesOfAService takes the addresses of the Service in front as they are.
func TestAddressesOfAService(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *Config) { c.PublishAddresses, c.PublishService = nil, "edge/front" })
	f.run()
	close(f.reachable)
	f.class("howdah")
	create(f, object.Ingress, ingressOf("shops", "howdah", "tea"))
	front := create(f, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "front"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
	front.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	front, err := object.For(f.client, object.Service).UpdateStatus(t.Context(), front)
	if err != nil {
		t.Fatal(err)
	}
	until(t, published, f.address("shops"))
	front.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "edge.example.com"}}
	if _, err := object.For(f.client, object.Service).UpdateStatus(t.Context(), front); err != nil {
		t.Fatal(err)
	}
	until(t, "[{ edge.example.com []}]", f.address("shops"))
}

// TestOtherObjectsBuildNoTable holds that what no Ingress names costs nothing.
func TestOtherObjectsBuildNoTable(t *testing.T) {
	t.Parallel()
	var i interest
	i.begin()
	i.note("Service", "shop/tea")
	if !i.has("Service", "shop/tea") {
		t.Error("what a table that is being built looks at is not heeded")
	}
	i.done()
	i.begin()
	if !i.has("Service", "shop/tea") || i.has("Service", "shop/coffee") || i.has("Secret", "shop/tea") {
		t.Error("what the table in use depends on is not told apart")
	}
	i.done()
	if i.has("Service", "shop/tea") {
		t.Error("what no table looks at any more is heeded")
	}
}

func TestPublishingIsSaidOnce(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		`"front" to publish is not namespace/name`: {PublishService: "front"},
		"not both": {PublishService: "edge/front", PublishAddresses: []string{"192.0.2.1"}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
