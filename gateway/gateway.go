// Package gateway is the stateless HTTPS front of the cluster: the Kubernetes
// API as REST, its watches and byte streams, discovery, and howdah's own role
// APIs, all translated to the gRPC services behind it.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/feed"
	"howdah.dev/gateway/internal/identity"
	"howdah.dev/gateway/internal/remote"
	"howdah.dev/gateway/internal/report"
	"howdah.dev/gateway/internal/rest"
)

// Config is what a gateway is built from. Zero values of the limits stand
// for their defaults.
type Config struct {
	// Listener accepts the clients' connections; Run closes it.
	Listener net.Listener
	// TLS has the server's certificate; clients are asked for one, too, and one
	// that is not good is answered 401. Nil serves plain HTTP/1.1, where no one
	// but bearers of tokens has a name.
	TLS *tls.Config
	// Authority signs the certificates of the cluster's parts and of users; nil is none.
	Authority Authorities
	// Connections is what clients are told of their connections.
	Connections Connections
	// ClientCAs sign certificates of users, beside Authority, whose names that begin with howdah: they may not give.
	// Nil is none.
	ClientCAs Authorities
	// FrontProxy lets proxies that authenticate clients themselves speak for them; nil lets none.
	FrontProxy *FrontProxy
	// APIServer serves ObjectService and DiscoveryService.
	APIServer grpc.ClientConnInterface
	// Scheduler serves SchedulerService; nil leaves its paths out.
	Scheduler grpc.ClientConnInterface
	// Controllers serves ControllerService; nil leaves its paths out.
	Controllers grpc.ClientConnInterface
	// Logs serves SearchService; nil leaves its path out.
	Logs grpc.ClientConnInterface
	// Registerer takes the gateway's metrics; may be nil.
	Registerer prometheus.Registerer
	// Gatherer is served at /metrics to authenticated callers; nil leaves the path out.
	Gatherer prometheus.Gatherer
	// Profiling serves /debug/pprof/ to those who may get it.
	Profiling bool
	// LogLevel decides what this process logs, and is changed at /debug/flags/v, beside the profiles; nil leaves that out.
	LogLevel *slog.LevelVar
	// Settings are the effective ones, "name=value" without secrets, for /configz and /flagz.
	Settings []string

	// Console serves the web console at /console/; nil serves none.
	Console *Console

	// CBOR says that the API server serves application/cbor, so that errors are answered in it too.
	CBOR bool

	// RequestTimeout ends requests that are no streams; 60 s. A `timeout`
	// option in the query can shorten it.
	RequestTimeout time.Duration
	// MaxBody bounds a request's body, in bytes; 3 MiB.
	MaxBody int64
	// MaxInFlight bounds the requests, other than streams, that are answered
	// at one time; 2000. More get 429.
	MaxInFlight int
	// SharedWatches is how many watches at API servers, which many clients' watches share, may stand at a time; 0 shares none.
	SharedWatches int
	// UntracedReads is the share of gets and lists, 0 to 1, that are not traced unless their callers trace them.
	UntracedReads float64
	// StopTimeout bounds how long Run waits for requests after its context
	// has ended; 5 s. Streams are ended at once.
	StopTimeout time.Duration
}

// Console is the web console's configuration.
type Console struct {
	// TraceURL leads to a trace, with {traceID} for its ID; empty shows IDs alone.
	TraceURL string
}

func (c Config) withDefaults() (Config, error) {
	var problems []error
	if c.Listener == nil {
		problems = append(problems, errors.New("no listener"))
	}
	if c.APIServer == nil {
		problems = append(problems, errors.New("no connection to the API server"))
	}
	for name, negative := range map[string]bool{
		"request timeout": c.RequestTimeout < 0, "body limit": c.MaxBody < 0,
		"in-flight limit": c.MaxInFlight < 0, "stop timeout": c.StopTimeout < 0,
		"number of shared watches": c.SharedWatches < 0, "share of untraced reads": c.UntracedReads < 0,
	} {
		if negative {
			problems = append(problems, fmt.Errorf("negative %s", name))
		}
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.MaxBody == 0 {
		c.MaxBody = 3 << 20
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 2000
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 5 * time.Second
	}
	return c, errors.Join(problems...)
}

// Gateway serves REST.
type Gateway struct {
	config   Config
	handler  http.Handler
	remote   *remote.Set
	reporter *report.Reporter
	feeds    *feed.Set
	log      serverLog
}

// New builds a gateway; nothing runs before Run.
func New(config Config) (*Gateway, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	elsewhere := remote.New(apiv1.NewObjectServiceClient(config.APIServer))
	reporter := report.New(apiv1.NewDiscoveryServiceClient(config.APIServer), config.Registerer)
	feeds := feed.New(feed.Config{
		Client: apiv1.NewObjectServiceClient(config.APIServer), Framer: rest.Framer, Most: config.SharedWatches, Registerer: config.Registerer,
	})
	handler, err := newHandler(config, elsewhere, reporter, feeds)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return &Gateway{config, handler, elsewhere, reporter, feeds, newServerLog(config.Registerer)}, nil
}

// Handler returns the gateway as a handler, for tests and for servers that
// have a listener of their own.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Run serves until ctx ends: then watches and streams end at once, and other
// requests have StopTimeout to finish.
func (g *Gateway) Run(ctx context.Context) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := &http.Server{
		Handler:           g.handler,
		TLSConfig:         g.config.asking(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		BaseContext:       func(net.Listener) context.Context { return withStreamEnd(context.Background(), streams) },
		ConnContext:       func(ctx context.Context, _ net.Conn) context.Context { return identity.WithConnection(ctx) },
		ErrorLog:          g.log.logger(),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 2000, // a client's watches share one connection
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
		},
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		endStreams()
		wait, cancel := context.WithTimeout(context.Background(), g.config.StopTimeout)
		defer cancel()
		if server.Shutdown(wait) != nil {
			_ = server.Close()
		}
	})
	following, stopFollowing := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		var both sync.WaitGroup
		both.Go(func() { g.remote.Run(following) })
		both.Go(func() { g.feeds.Run(following) })
		both.Go(func() { g.reporter.Run(following) })
		both.Wait()
	}()
	defer func() { stopFollowing(); <-followed }()
	var err error
	if g.config.TLS != nil {
		err = server.ServeTLS(g.config.Listener, "", "")
	} else {
		err = server.Serve(g.config.Listener)
	}
	if !stop() {
		<-done
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve REST: %w", err)
	}
	return nil
}
