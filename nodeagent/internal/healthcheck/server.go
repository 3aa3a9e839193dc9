// Package healthcheck answers load balancers that stand before the nodes. Which nodes have endpoints of a service they ask at its
// healthCheckNodePort, and whether a node balances at all at port 10256, where every node of Kubernetes answers it.
package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/lb"
)

const (
	// DefaultAddress is where the node's own health is asked.
	DefaultAddress = ":10256"
	// DefaultStatusAddress is where processes of the node ask how it balances.
	DefaultStatusAddress = "127.0.0.1:10249"

	// again is the pause after a port could not be had.
	again = 2 * time.Second
	// most is how many connections a port has at a time; who comes then waits in the kernel's queue.
	most = 64
)

// Config of a Server. Health, Node and Clock are required.
type Config struct {
	// Address and StatusAddress are DefaultAddress and DefaultStatusAddress if they are empty.
	Address, StatusAddress string
	// Health is the balancer's.
	Health func() lb.Health
	// Node is this node as the API has it; nil if it has none.
	Node  func() *corev1.Node
	Clock clock.Clock
	// Metrics is where it is told what was answered for the node; default nowhere.
	Metrics prometheus.Registerer
	// Failed is told once when a service's port cannot be had; default nobody.
	Failed func(service types.NamespacedName, port uint16, err error)
}

// Server listens at the ports of the services that it was last told of.
type Server struct {
	cfg  Config
	wake chan struct{}
	// Answers for the node, by code.
	healthz, livez *prometheus.CounterVec

	mu       sync.Mutex
	services map[types.NamespacedName]lb.HealthPort
}

// New makes a server; it listens nowhere before Run.
func New(cfg Config) *Server {
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	if cfg.StatusAddress == "" {
		cfg.StatusAddress = DefaultStatusAddress
	}
	if cfg.Failed == nil {
		cfg.Failed = func(types.NamespacedName, uint16, error) {}
	}
	s := &Server{
		cfg: cfg, wake: make(chan struct{}, 1),
		healthz: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubeproxy_proxy_healthz_total", Help: "Answers whether the node takes traffic, by code.",
		}, []string{"code"}),
		livez: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubeproxy_proxy_livez_total", Help: "Answers whether the node balances, by code.",
		}, []string{"code"}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(s.healthz, s.livez)
	}
	return s
}

// Set replaces what is answered for the services, which must not be changed afterwards. It does not block: ports are opened and
// closed by Run.
func (s *Server) Set(services map[types.NamespacedName]lb.HealthPort) {
	s.mu.Lock()
	s.services = services
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// question is what one listener answers: a service's at its port, the node's own, or how it balances.
type question struct {
	service types.NamespacedName
	address string
}

// Run keeps the ports open until ctx ends, and closes them.
func (s *Server) Run(ctx context.Context) error {
	open := map[question]*http.Server{}
	failed := map[question]bool{}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer func() {
		for _, server := range open {
			_ = server.Close()
		}
	}()
	for {
		wanted := s.wanted()
		for q, server := range open {
			if _, still := wanted[q]; !still {
				_ = server.Close()
				delete(open, q)
			}
		}
		retry := false
		for q, handler := range wanted {
			if open[q] != nil {
				continue
			}
			server, err := serve(ctx, q.address, handler, &serving)
			if err != nil {
				retry = true
				if !failed[q] {
					failed[q] = true
					s.report(q, err)
				}
				continue
			}
			open[q] = server
			delete(failed, q)
		}
		for q := range failed {
			if _, still := wanted[q]; !still {
				delete(failed, q)
			}
		}
		if err := s.pause(ctx, retry); err != nil {
			return err
		}
	}
}

// pause waits for other services, or, if some port could not be had, for a while.
func (s *Server) pause(ctx context.Context, retry bool) error {
	var elapsed <-chan time.Time
	if retry {
		timer := s.cfg.Clock.NewTimer(again)
		defer timer.Stop()
		elapsed = timer.C()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.wake:
	case <-elapsed:
	}
	return nil
}

// wanted are the listeners that there are to be.
func (s *Server) wanted() map[question]http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[question]http.Handler{
		{address: s.cfg.Address}:       s.node(),
		{address: s.cfg.StatusAddress}: s.mode(),
	}
	for name, port := range s.services {
		out[question{service: name, address: fmt.Sprintf(":%d", port.Port)}] = s.service(name)
	}
	return out
}

func (s *Server) report(q question, err error) {
	slog.Warn("health checks are not answered; will retry", "address", q.address, "namespace", q.service.Namespace, "name", q.service.Name, "err", err)
	if q.service == (types.NamespacedName{}) {
		return
	}
	s.mu.Lock()
	port := s.services[q.service].Port
	s.mu.Unlock()
	s.cfg.Failed(q.service, port, err)
}

func serve(ctx context.Context, address string, handler http.Handler, serving *sync.WaitGroup) (*http.Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: handler, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // broken requests of others
	}
	serving.Go(func() {
		if err := server.Serve(netutil.LimitListener(listener, most)); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("health checks are no longer answered", "address", address, "err", err)
		}
	})
	return server, nil
}
