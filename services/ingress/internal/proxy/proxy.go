// Package proxy takes requests from outside and passes them on to the endpoints that a routing table names.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"howdah.dev/kit/task"
	"howdah.dev/services/ingress/internal/route"
)

// Limits bound what clients and endpoints may take.
type Limits struct {
	// Connections are those of clients at a time; further ones wait to be accepted.
	Connections int
	// Header is how long a client may take for a request's header, Answer how long an endpoint may take to begin its answer.
	Header, Answer time.Duration
	// Idle is how long nothing may pass on a connection that is in use.
	Idle time.Duration
	// Drain is how long requests have to end when the proxy stops.
	Drain time.Duration
}

// Config is what a proxy needs.
type Config struct {
	HTTP, HTTPS net.Listener
	// Fallback is the certificate for names that no Ingress has one for.
	Fallback *tls.Certificate
	// Trusted are proxies in front, whose X-Forwarded-* headers are believed.
	Trusted []netip.Prefix
	// RedirectPort is the port of HTTPS where the port of HTTP was named in the request: ports that are published elsewhere. 0: the usual one.
	RedirectPort int
	Limits       Limits
	Metrics      *Metrics
	Now          func() time.Time
	// Dial connects to endpoints.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Proxy is the data plane.
type Proxy struct {
	cfg       Config
	table     atomic.Pointer[route.Table]
	passing   *httputil.ReverseProxy
	transport *transport
	handlers  sync.WaitGroup
}

// New returns a proxy with an empty table; nothing runs until Run.
func New(cfg Config) *Proxy {
	p := &Proxy{cfg: cfg, transport: newTransport(cfg)}
	p.table.Store(&route.Table{})
	p.passing = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.transport, ErrorHandler: p.failed, BufferPool: &buffers{},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	return p
}

// Use makes a table the one that requests are looked up in from now on. Requests that have begun go on as they were.
func (p *Proxy) Use(t *route.Table) {
	p.table.Store(t)
	p.cfg.Metrics.use(t)
}

// Run serves until ctx ends, and then as long as requests last, up to the limit.
func (p *Proxy) Run(ctx context.Context) error {
	base, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	plain, secure := p.server(base), p.server(base)
	secure.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.certificate}
	slots := make(chan struct{}, p.cfg.Limits.Connections) // both ports share them
	serve := func(how func() error) task.Func {
		return func(context.Context) error {
			if err := how(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}
	}
	err := task.Run(ctx,
		serve(func() error { return plain.Serve(p.limited(p.cfg.HTTP, slots)) }),
		serve(func() error { return secure.ServeTLS(p.limited(p.cfg.HTTPS, slots), "", "") }),
		func(ctx context.Context) error {
			<-ctx.Done()
			limited, cancel := context.WithTimeout(base, p.cfg.Limits.Drain)
			defer cancel()
			var both sync.WaitGroup
			for _, s := range []*http.Server{plain, secure} {
				both.Go(func() { _ = s.Shutdown(limited) }) // what is left then is cut off
			}
			both.Wait()
			return nil
		},
	)
	p.drain(abort)
	_, _ = plain.Close(), secure.Close()
	p.transport.close()
	return err
}

// drain waits for the handlers that are left: of upgraded connections, which a server that shuts down does not wait for. They end with their context.
func (p *Proxy) drain(abort context.CancelFunc) {
	done := make(chan struct{})
	go func() { defer close(done); p.handlers.Wait() }()
	timer := time.NewTimer(p.cfg.Limits.Drain / 2)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	abort()
	<-done
}

func (p *Proxy) server(base context.Context) *http.Server {
	return &http.Server{
		Handler: p, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: p.cfg.Limits.Header, IdleTimeout: 2 * p.cfg.Limits.Header, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), // faults of clients
	}
}

// certificate answers for a client's SNI.
func (p *Proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := p.table.Load().Certificate(hostOf(hello.ServerName)); c != nil {
		return c, nil
	}
	return p.cfg.Fallback, nil
}

// hostOf is a host as it is compared: without its port and the dot of the root, in lower case.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// buffers are those that bodies are copied with.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
