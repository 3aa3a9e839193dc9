package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/pki"
	"howdah.dev/services/ingress/internal/route"
)

// spans has what every test's spans end in.
var spans = tracetest.NewSpanRecorder()

func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	os.Exit(m.Run())
}

// front is a proxy on loopback with backends behind made-up addresses.
type front struct {
	*Proxy
	t           *testing.T
	http, https string // host:port
	authority   *pki.Authority
	registry    *prometheus.Registry
	stop        context.CancelFunc
	ended       chan error

	services []*corev1.Service
	secrets  []*corev1.Secret
	maps     []*corev1.ConfigMap
	slices   map[string]*discoveryv1.EndpointSlice

	mu      sync.Mutex
	places  map[string]string // real addresses by made-up ones; those without one refuse
	dialled map[string]int
}

func start(t *testing.T, change func(*Config)) *front {
	t.Helper()
	f := &front{t: t, registry: prometheus.NewRegistry(), slices: map[string]*discoveryv1.EndpointSlice{}, places: map[string]string{}, dialled: map[string]int{}, ended: make(chan error, 1)}
	var err error
	if f.authority, err = pki.NewAuthority(time.Now()); err != nil {
		t.Fatal(err)
	}
	fallback := f.pair("fallback", "fallback")
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	cfg := Config{
		HTTP: listen(), HTTPS: listen(), Fallback: &fallback, Metrics: NewMetrics(f.registry), Now: time.Now, Dial: f.dial, Listen: func(int32) (net.Listener, error) { return listen(), nil },
		Limits: Limits{Connections: 100, Header: 10 * time.Second, Answer: 30 * time.Second, Idle: 30 * time.Second, Drain: 10 * time.Second},
	}
	if change != nil {
		change(&cfg)
	}
	f.http, f.https = cfg.HTTP.Addr().String(), cfg.HTTPS.Addr().String()
	f.Proxy = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() { f.ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-f.ended:
			if err != nil {
				t.Errorf("the proxy ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the proxy does not end")
		}
		f.ended <- nil // for a test that waits itself
	})
	return f
}

// pair makes a key pair for hosts.
func (f *front) pair(name string, hosts ...string) tls.Certificate {
	f.t.Helper()
	p, err := f.authority.Issue(pki.Subject{CommonName: name, Hosts: hosts}, time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *front) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dialled[address]++
	real, ok := f.places[address]
	f.mu.Unlock()
	if !ok {
		return nil, errors.New("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, network, real)
}

// count returns how often an endpoint was dialled.
func (f *front) count(address string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialled[address]
}

// service adds a Service with endpoints, of which nobody listens yet.
func (f *front) service(name, app string, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, AppProtocol: &app}}}}
	f.services = append(f.services, s)
	slice := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	f.slices[name] = slice
	return s
}

// serve makes a handler answer at an address.
func (f *front) serve(address string, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	f.t.Cleanup(func() { _ = s.Config.Close() }) // it waits for no handler
	f.place(address, s.Listener.Addr().String())
	return s
}

func (f *front) place(address, real string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places[netip.AddrPortFrom(netip.MustParseAddr(address), 80).String()] = real
}

// secret adds a Secret with a certificate.
func (f *front) secret(name string, hosts ...string) {
	f.t.Helper()
	p, err := f.authority.Issue(pki.Subject{CommonName: name, Hosts: hosts}, time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	f.secrets = append(f.secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string][]byte{"tls.crt": p.Certificate, "tls.key": p.Key}})
}

// Service, Slices and Secret implement route.Objects.
func (f *front) Service(_, name string) (*corev1.Service, bool) {
	for _, s := range f.services {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

func (f *front) Slices(_, service string) []*discoveryv1.EndpointSlice {
	return []*discoveryv1.EndpointSlice{f.slices[service]}
}

func (f *front) ConfigMap(_, name string) (*corev1.ConfigMap, bool) {
	for _, m := range f.maps {
		if m.Name == name {
			return m, true
		}
	}
	return nil, false
}

func (f *front) Namespace(string) (*corev1.Namespace, bool) { return nil, false }

func (f *front) Secret(_, name string) (*corev1.Secret, bool) {
	for _, s := range f.secrets {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// routes makes the proxy lead hosts to services, "host=service" each, in an Ingress of its own with TLS where a Secret is named: "host=service,secret".
func (f *front) routes(texts ...string) {
	f.t.Helper()
	classes := route.NewClasses([]*networkingv1.IngressClass{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: networkingv1.IngressClassSpec{Controller: "us"}}}, "us")
	var list []*networkingv1.Ingress
	for _, text := range texts {
		host, target, _ := strings.Cut(text, "=")
		service, secret, _ := strings.Cut(target, ",")
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service}, Spec: networkingv1.IngressSpec{IngressClassName: ptr.To("c"), Rules: []networkingv1.IngressRule{{
			Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}}},
		}}}}
		if secret != "" {
			i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: secret}}
		}
		list = append(list, i)
	}
	f.Use(new(route.Builder).Build(route.Sources{Ingresses: list, Classes: classes}, f, time.Now()))
}

// client sends requests for any host to the proxy, and believes the test's authority. It follows no redirects.
func (f *front) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(f.authority.Certificate)
	t := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := f.http
			if strings.HasSuffix(address, ":443") {
				to = f.https
			}
			var d net.Dialer
			return d.DialContext(ctx, network, to)
		},
	}
	f.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get returns code and body.
func (f *front) get(url string, headers ...string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	return do(f.t, f.client(), r)
}

func do(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	response, err := c.Do(r)
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

// says is a backend that answers with a text.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// echo is a backend that upgrades connections, and repeats every line until "bye".
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		for lines := bufio.NewScanner(buffered); lines.Scan() && lines.Text() != "bye"; {
			_, _ = io.WriteString(conn, "you said "+lines.Text()+"\n")
		}
	}
}

// receive waits for something.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("unreachable")
	}
}
