// Package proxy takes requests from outside and passes them on to the endpoints that a routing table names.
package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	// HTTP and HTTPS take what comes to the ports of Ingresses, whatever their own ports are.
	HTTP, HTTPS net.Listener
	// Listen opens another port, which a Gateway names.
	Listen func(port int32) (net.Listener, error)
	// Fallback is the certificate for names that nobody has one for, at the port of Ingresses.
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
	mirrors   chan struct{} // a slot for each copy of a request under way
	slots     chan struct{} // one for each connection, of all ports
	base      context.Context
	abort     context.CancelFunc
	handlers  sync.WaitGroup // requests, streams and copies under way
	doormen   sync.WaitGroup // what takes connections, and shuts doors

	mu      sync.Mutex
	doors   map[int32]*door
	serving func(*door) // nil: Run has not begun, or is over
}

// New returns a proxy with an empty table; nothing runs until Run.
func New(cfg Config) *Proxy {
	p := &Proxy{
		cfg: cfg, transport: newTransport(cfg), mirrors: make(chan struct{}, mirrorsAtOnce), slots: make(chan struct{}, cfg.Limits.Connections), doors: map[int32]*door{},
	}
	p.base, p.abort = context.WithCancel(context.Background())
	p.table.Store(&route.Table{})
	p.passing = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.transport, ModifyResponse: p.answered, ErrorHandler: p.failed, BufferPool: &buffers{},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	p.doors[route.PlainPort] = p.door(route.PlainPort, false, cfg.HTTP)
	p.doors[route.SecurePort] = p.door(route.SecurePort, true, cfg.HTTPS)
	return p
}

// Use makes a table the one that requests are looked up in from now on. Requests that have begun go on as they were. It opens the ports that Gateways name, and
// closes those that none names any more; it returns why ports could not be opened.
func (p *Proxy) Use(t *route.Table) map[int32]string {
	p.table.Store(t)
	p.transport.use(t)
	p.cfg.Metrics.use(t)
	return p.open(t.Ports)
}

// Run serves until ctx ends, and then as long as requests last, up to the limit.
func (p *Proxy) Run(ctx context.Context) error {
	var all sync.WaitGroup
	failed := make(chan error, 1)
	p.mu.Lock()
	p.serving = func(d *door) {
		all.Go(func() {
			if err := d.serve(); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	for _, d := range p.doors {
		p.serving(d)
	}
	p.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
	}
	p.mu.Lock()
	p.serving = nil
	left := slices.Collect(maps.Values(p.doors))
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(p.base, p.cfg.Limits.Drain)
	defer cancel()
	for _, d := range left {
		all.Go(func() { d.shut(limited) })
	}
	all.Wait()
	p.drain(p.abort)
	for _, d := range left {
		_ = d.server.Close()
	}
	p.doormen.Wait()
	p.transport.close()
	if ctx.Err() != nil {
		return nil
	}
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
