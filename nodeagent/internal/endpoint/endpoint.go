// Package endpoint is the node's HTTPS endpoint, with the paths of a kubelet's: what metrics-server, Prometheus and nodes/proxy ask.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/sli"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/access"
	"howdah.dev/nodeagent/internal/nodelog"
	"howdah.dev/nodeagent/internal/usage"
)

// Times of a connection. An answer may take as long as it likes: logs are followed, and commands run on.
const (
	headersWithin = 30 * time.Second
	idleTimeout   = 90 * time.Second
	stopWithin    = 2 * time.Second
	healthAgain   = 5 * time.Second
	maxHeaders    = 1 << 20 // as the gateway takes: a command is in the URL, which may be a whole script
)

// Source makes readings of what the node uses.
type Source interface {
	Read(ctx context.Context) *usage.Reading
	Opened(group string) (usage.Opened, bool)
}

// Streams leads into containers.
type Streams interface {
	// Log opens a container's log; write copies it.
	Log(ctx context.Context, pod *corev1.Pod, query url.Values) (write func(ctx context.Context, to io.Writer) error, err error)
	// Join returns where the runtime serves a stream: "exec", "attach" or "portforward".
	Join(ctx context.Context, kind string, pod *corev1.Pod, query url.Values) (*url.URL, error)
	// Run returns what a command has written when it has ended.
	Run(ctx context.Context, pod *corev1.Pod, container string, command []string) ([]byte, error)
	// Checkpoint writes what a container holds into an archive, whose path it returns; a timeout of 0 is the default.
	Checkpoint(ctx context.Context, pod *corev1.Pod, container string, timeout time.Duration) (string, error)
}

// Config of a Server.
type Config struct {
	NodeName, Version string
	// Addresses are host:port; ReadOnly those of a port where everybody may read what is only read, without TLS; without any, none is opened.
	Addresses, ReadOnly []string
	// Health is host:port where /healthz alone is answered, to everybody and without TLS; empty is nowhere.
	Health string
	// TLS has the node's certificate; clients may bring one.
	TLS     *tls.Config
	Guard   *access.Guard
	Usage   Source
	Streams Streams
	Pods    func() []*corev1.Pod
	Pod     func(namespace, name string) (*corev1.Pod, bool)
	// Healthy says what keeps the agent from taking care of its pods.
	Healthy func() error
	// Settings are what /configz shows, Flags ("name=value", without secrets) what /flagz does.
	Settings any
	Flags    []string
	Clock    clock.Clock
	// LogDir is the folder that /logs/ shows.
	LogDir string
	// Journal is what /logs/?query= asks; nil answers no such questions.
	Journal nodelog.Journal
	// Gatherer has the agent's metrics, Registerer takes those of this server; Probes are collectors of /metrics/probes.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	Probes     []prometheus.Collector
	Cores      int
}

// Server answers. It is safe for concurrent use.
type Server struct {
	cfg     Config
	metrics *metrics
	checks  *sli.Checks
	began   time.Time
	all     http.Handler // of every path
	open    http.Handler // of those that the read-only port has
}

// New returns a Server; it listens nowhere yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), checks: sli.New(), began: cfg.Clock.Now()}
	s.open = s.readable()
	s.all = s.everything(s.open)
	return s
}

// Handler answers those of whom it is known that they may ask everything.
func (s *Server) Handler() http.Handler { return s.metrics.observe("trusted", s.all) }

// Run serves until ctx ends. It takes the first reading, from which usage is counted on.
func (s *Server) Run(ctx context.Context) error {
	parts := []task.Func{func(ctx context.Context) error {
		s.cfg.Usage.Read(ctx)
		<-ctx.Done()
		return ctx.Err()
	}}
	for _, address := range s.cfg.Addresses {
		listener, err := listen(ctx, address)
		if err != nil {
			return err
		}
		secure := s.cfg.TLS.Clone()
		secure.ClientAuth = tls.RequestClientCert // whose it is, the guard sees; a token may stand beside one that is of no use
		if secure.MinVersion < tls.VersionTLS12 {
			secure.MinVersion = tls.VersionTLS12
		}
		server := newServer(s.metrics.observe("readwrite", s.cfg.Guard.Protect(s.all)))
		server.TLSConfig = secure
		parts = append(parts, func(ctx context.Context) error {
			return serve(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
		})
	}
	for _, address := range s.cfg.ReadOnly {
		listener, err := listen(ctx, address)
		if err != nil {
			return err
		}
		server := newServer(s.metrics.observe("readonly", s.open))
		parts = append(parts, func(ctx context.Context) error {
			return serve(ctx, server, func() error { return server.Serve(listener) })
		})
	}
	if s.cfg.Health != "" {
		parts = append(parts, s.serveHealth)
	}
	return task.Run(ctx, parts...)
}

// serveHealth answers at Health. The port may be another agent's, on a machine with several: the node is none the worse for that.
func (s *Server) serveHealth(ctx context.Context) error {
	for {
		listener, err := listen(ctx, s.cfg.Health)
		if err == nil {
			server := newServer(s.healthy())
			return serve(ctx, server, func() error { return server.Serve(listener) })
		}
		slog.Warn("the node's health cannot be asked", "address", s.cfg.Health, "err", err)
		timer := s.cfg.Clock.NewTimer(healthAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the node's endpoint: %w", err)
	}
	return listener, nil
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headersWithin, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaders,
		ErrorLog: log.New(io.Discard, "", 0), // handshakes of scanners and health checks
	}
}

func serve(ctx context.Context, server *http.Server, run func() error) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // logs that are followed do not end by themselves
		}
	})
	err := run()
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("the node's endpoint: %w", err)
}
