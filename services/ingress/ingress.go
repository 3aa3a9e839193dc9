// Package ingress is the ingress controller: it follows Ingresses, Gateways with their routes, and what they name, and is the proxy that they describe.
package ingress

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
	"howdah.dev/services/ingress/internal/custom"
	"howdah.dev/services/ingress/internal/election"
	"howdah.dev/services/ingress/internal/proxy"
	"howdah.dev/services/ingress/internal/route"
	"howdah.dev/services/ingress/internal/status"
)

const (
	// Controller is the name by which IngressClasses are ours.
	Controller = route.Controller
	// Manager is the field manager of what is written.
	Manager = status.Manager
)

// Config is what an ingress controller needs.
type Config struct {
	Objects *object.Client
	// Holder names this process in the election of who writes status and events.
	Holder string
	// HTTP and HTTPS take the requests.
	HTTP, HTTPS net.Listener
	// Controller is the spec.controller of the IngressClasses to serve.
	Controller string
	// GatewayController is the spec.controllerName of the GatewayClasses to serve; "" is the usual one.
	GatewayController string
	// Listen opens ports that Gateways name beside 80 and 443; nil opens them at all addresses of the machine.
	Listen func(port int32) (net.Listener, error)
	// PublishAddresses are addresses or names that go into the status of Ingresses and Gateways; PublishService is a Service, "namespace/name", whose addresses do. Either.
	PublishAddresses []string
	PublishService   string
	// TrustedProxies are believed what they say of clients.
	TrustedProxies []netip.Prefix
	// RedirectPort is the port in redirections to HTTPS of requests that named a port; 0: none.
	RedirectPort int
	// Limits of connections and times.
	MaxConnections                                         int
	HeaderTimeout, AnswerTimeout, IdleTimeout, DrainPeriod time.Duration
	Clock                                                  clock.WithTicker
	Registerer                                             prometheus.Registerer
	// Dial connects to endpoints; nil is net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Reachable waits until there is a way to the endpoints, and is false where ctx ends before; nil: there is one.
	Reachable func(ctx context.Context) bool
}

// Server is an ingress controller.
type Server struct {
	cfg        Config
	informers  *object.Informers
	ingresses  *object.Informer[*networkingv1.Ingress]
	classes    *object.Informer[*networkingv1.IngressClass]
	services   *object.Informer[*corev1.Service]
	slices     *object.Informer[*discoveryv1.EndpointSlice]
	secrets    *object.Informer[*corev1.Secret]
	maps       *object.Informer[*corev1.ConfigMap]
	namespaces *object.Informer[*corev1.Namespace]
	custom     *custom.Set
	kinds      followed

	proxy    *proxy.Proxy
	election *election.Election
	writer   *status.Writer
	gateways *status.Gateways
	reporter *status.Reporter
	send     func(ctx context.Context) error

	own      atomic.Pointer[route.Classes]
	reclass  atomic.Bool // an IngressClass has changed since the last table
	interest interest
	wake     chan struct{} // a token: the table may be out of date
	ready    chan struct{} // closed when the first table is in use
}

// New returns an ingress controller; nothing runs until Run.
func New(cfg Config) (*Server, error) {
	if cfg.PublishService != "" && !strings.Contains(cfg.PublishService, "/") {
		return nil, fmt.Errorf("the Service %q to publish is not namespace/name", cfg.PublishService)
	}
	if cfg.PublishService != "" && len(cfg.PublishAddresses) > 0 {
		return nil, fmt.Errorf("either addresses or a Service can be published, not both")
	}
	fallback, err := selfSigned(cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	if cfg.Reachable == nil {
		cfg.Reachable = func(context.Context) bool { return true }
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if cfg.GatewayController == "" {
		cfg.GatewayController = GatewayController
	}
	if cfg.Listen == nil {
		cfg.Listen = func(port int32) (net.Listener, error) { return net.Listen("tcp", ":"+strconv.Itoa(int(port))) }
	}
	s := &Server{
		cfg: cfg, informers: object.NewInformers(cfg.Objects), wake: make(chan struct{}, 1), ready: make(chan struct{}),
		election: election.New(cfg.Objects, "kube-system", Manager, cfg.Holder),
		proxy: proxy.New(proxy.Config{
			HTTP: cfg.HTTP, HTTPS: cfg.HTTPS, Listen: cfg.Listen, Fallback: fallback, Trusted: cfg.TrustedProxies, RedirectPort: cfg.RedirectPort,
			Limits:  proxy.Limits{Connections: cfg.MaxConnections, Header: cfg.HeaderTimeout, Answer: cfg.AnswerTimeout, Idle: cfg.IdleTimeout, Drain: cfg.DrainPeriod},
			Metrics: proxy.NewMetrics(cfg.Registerer), Now: cfg.Clock.Now, Dial: cfg.Dial,
		}),
	}
	s.own.Store(&route.Classes{})
	s.follow()
	metrics := reconcile.NewMetrics(cfg.Registerer)
	s.gateways = status.NewGateways(status.GatewaysConfig{
		Classes: s.kinds.classes, Gateways: s.kinds.gateways, ListenerSets: s.kinds.listenerSets, HTTPRoutes: s.kinds.httpRoutes, GRPCRoutes: s.kinds.grpcRoutes,
		TLSRoutes: s.kinds.tlsRoutes, Policies: s.kinds.policies, Controller: cfg.GatewayController, Metrics: metrics, Clock: cfg.Clock,
	})
	recorder, send := object.Recorder(cfg.Objects, Manager, cfg.Holder)
	s.reporter, s.send = status.NewReporter(recorder, cfg.Clock), send
	s.writer = status.NewWriter(status.Config{
		Ingresses: s.ingresses, Objects: object.For(cfg.Objects, object.Ingress), Addresses: s.addresses, Clock: cfg.Clock,
		Own: func(i *networkingv1.Ingress) bool { return s.own.Load().Own(i) }, Metrics: metrics,
	})
	return s, nil
}

// Register implements what roles serve over gRPC: health alone.
func (s *Server) Register(grpc.ServiceRegistrar) {}

// Ready waits until requests are routed.
func (s *Server) Ready(ctx context.Context) bool {
	select {
	case <-s.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run serves until ctx ends. Every process serves requests, from when it knows where they go; clients that come before wait. The one that is elected writes
// status and events.
func (s *Server) Run(ctx context.Context) error {
	return task.Run(ctx, s.informers.Run, s.custom.Run, s.send, s.rebuild, s.whenReady(s.proxy.Run), s.whenReady(func(ctx context.Context) error {
		return s.election.Run(ctx, func(ctx context.Context) error { return task.Run(ctx, s.writer.Run, s.gateways.Run, s.reporter.Run) })
	}))
}

func (s *Server) whenReady(run task.Func) task.Func {
	return func(ctx context.Context) error {
		if !s.Ready(ctx) {
			return ctx.Err()
		}
		return run(ctx)
	}
}

// addresses are where our Ingresses and Gateways are reached now.
func (s *Server) addresses() []networkingv1.IngressLoadBalancerIngress {
	if s.cfg.PublishService == "" {
		return status.Of(s.cfg.PublishAddresses)
	}
	if service, ok := s.services.GetKey(s.cfg.PublishService); ok {
		return status.OfService(service)
	}
	return nil
}

// selfSigned makes the certificate for names that nobody has one for. Browsers warn of it, which is right.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	authority, err := pki.NewAuthority(now)
	if err != nil {
		return nil, err
	}
	p, err := authority.Issue(pki.Subject{CommonName: "howdah ingress default certificate", Hosts: []string{strings.ToLower(rand.Text()) + ".ingress.howdah.invalid"}}, now)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, fmt.Errorf("default certificate: %w", err)
	}
	return &certificate, nil
}
