// Package logs keeps what containers write, and finds it again: nodes send lines, which are kept in PostgreSQL, and users search them through
// the gateway, also those of pods that are gone.
package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
	"howdah.dev/services/logs/internal/owner"
	"howdah.dev/services/logs/internal/store"
)

// Defaults of Config.
const (
	DefaultRetention = 7 * 24 * time.Hour
	DefaultMaxBytes  = 10 << 30
	DefaultRate      = 4 << 20
)

// Config is what the service needs.
type Config struct {
	// DatabaseURL is that of the database with the schema howdah_logs; it may be another one than that of the objects.
	DatabaseURL string
	// APIServer tells which node a pod is bound to.
	APIServer grpc.ClientConnInterface
	// Retention is how long lines stay at least (7 days), unless they take more room than MaxBytes, with their indexes (10 GiB).
	Retention time.Duration
	MaxBytes  int64
	// Rate is how many bytes of text a second are stored over a while (4 MiB): what is more waits at the nodes.
	Rate int64

	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

func (c Config) complete() (Config, error) {
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	var problems []error
	if c.DatabaseURL == "" {
		problems = append(problems, errors.New("the database's URL is missing"))
	}
	if c.APIServer == nil {
		problems = append(problems, errors.New("the connection to the apiserver is missing"))
	}
	if c.Retention < time.Hour {
		problems = append(problems, fmt.Errorf("a retention of %v is less than an hour, the least that is dropped at a time", c.Retention))
	}
	if c.MaxBytes < 1<<20 {
		problems = append(problems, fmt.Errorf("room of %d bytes is less than 1 MiB", c.MaxBytes))
	}
	if c.Rate < 1<<10 {
		problems = append(problems, fmt.Errorf("a rate of %d bytes a second is less than 1 KiB", c.Rate))
	}
	return c, errors.Join(problems...)
}

// Server is the service. Any number may run side by side.
type Server struct {
	logsv1.UnimplementedSearchServiceServer
	logsv1.UnimplementedCollectServiceServer

	cfg     Config
	store   *store.Store
	owners  *owner.Finder
	metrics *metrics
	rate    *bucket
}

// New returns a service; nothing runs until Run.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), rate: newBucket(cfg.Rate, cfg.Clock)}
	s.store, err = store.New(store.Config{
		DatabaseURL: cfg.DatabaseURL, Retention: cfg.Retention, MaxBytes: cfg.MaxBytes, Connections: 2, Clock: cfg.Clock, Kept: s.metrics.kept,
	})
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	s.owners = owner.New(object.NewClient(cfg.APIServer, "howdah-logs"), apiv1.NewHistoryServiceClient(cfg.APIServer), s.store)
	return s, nil
}

// Register adds the service's API to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	logsv1.RegisterSearchServiceServer(r, s)
	logsv1.RegisterCollectServiceServer(r, s)
}

// RegisterCollect adds what nodes call alone.
func (s *Server) RegisterCollect(r grpc.ServiceRegistrar) { logsv1.RegisterCollectServiceServer(r, s) }

// Ready waits until the database answers and has the schema; false says that ctx has ended before.
func (s *Server) Ready(ctx context.Context) bool {
	for pause, said := 100*time.Millisecond, false; ; pause = min(2*pause, 2*time.Second) {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := s.store.Ping(asked)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil && !said {
			said = true
			slog.WarnContext(ctx, "waiting for the database", "err", err)
		}
		timer := s.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C():
		}
	}
}

// Run drops what is not to be kept until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.store.Run(ctx) }
