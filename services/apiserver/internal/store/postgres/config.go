// Package postgres keeps the state of the cluster in PostgreSQL.
//
// Writes are committed in groups: while one batch is on its way to the disk, the writes that arrive form the next. The
// SQL side (migrations/0001_store.sql and on) explains the rule that makes revision order equal commit order; this side
// keeps one batch in flight, hands outcomes back, follows the log and looks after its partitions.
package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/database"
)

const (
	// batchSize is the greatest number of writes in a batch; a larger atomic group makes a batch of its own.
	batchSize = 256
	// maxGroup is the greatest number of writes in an atomic group.
	maxGroup = 4096
	// batchBytes ends a batch early, so that big values do not make everyone wait.
	batchBytes = 8 << 20
	maxKey     = 1024
	maxValue   = 8 << 20
)

// Config of a Store. Everything but DatabaseURL has a default.
type Config struct {
	// DatabaseURL as pgx takes it; the schema must be migrated.
	DatabaseURL string
	// QueueLength bounds the calls of Write and WriteAtomic that wait for a batch; more wait for a place. Default 4096.
	QueueLength int
	// QueueBytes bounds the values that wait. Default 256 MiB.
	QueueBytes int64
	// ReadConnections bounds the connections for reads. Default 8.
	ReadConnections int
	// CommitTimeout bounds one batch's round trip; longer than that, its outcome is unknown. Default 10 s, or 5 s where the URL names several
	// servers: the next batch may then be another's.
	CommitTimeout time.Duration
	// ReadPatience bounds how long a read is retried when its context has no deadline. Default 30 s.
	ReadPatience time.Duration
	// PollInterval is how often a tail reads the log unasked, in case a wake-up was lost. Default 2 s.
	PollInterval time.Duration
	// Retention is how long the log is kept at least; compaction removes whole partitions that are older. Default 1 h.
	Retention time.Duration
	// Quota bounds the bytes that the store takes in the database: near it the log is kept for a shorter time, above it nothing is created, and by a quarter
	// above it entries can only be deleted. 0 (the default) sets no bound.
	Quota int64
	// MaintenanceInterval is how often partitions and the quota are looked after. Default 10 s.
	MaintenanceInterval time.Duration
	// PartitionSize in revisions; 0 (the default) chooses it from Retention and the rate of writes.
	PartitionSize int64
	Logger        *slog.Logger
	// Metrics is where the store's metrics are registered; nil registers them nowhere.
	Metrics prometheus.Registerer
	// Tracer makes the spans; default is that of the process.
	Tracer trace.Tracer
}

// New builds a Store. It connects to nothing before Run.
func New(cfg Config) (*Store, error) {
	pool, err := database.PoolConfig(cfg.DatabaseURL, connectTimeout)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	if database.Several(&pool.ConnConfig.Config) {
		orDefault(&cfg.CommitTimeout, 5*time.Second)
	}
	setDefaults(&cfg)
	if cfg.QueueLength < 1 || cfg.ReadConnections < 1 || cfg.ReadConnections > math.MaxInt32 || cfg.PartitionSize < 0 || cfg.Quota < 0 {
		return nil, errors.New("store: queue length, read connections, partition size and quota must be positive")
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	s := newStore(cfg, pool, metrics)
	if cfg.Metrics != nil {
		err = errors.Join(cfg.Metrics.Register(size{s}), cfg.Metrics.Register(replication{s}))
	}
	return s, err
}

func setDefaults(cfg *Config) {
	orDefault(&cfg.QueueLength, 4096)
	orDefault(&cfg.QueueBytes, 256<<20)
	orDefault(&cfg.ReadConnections, 8)
	orDefault(&cfg.CommitTimeout, 10*time.Second)
	orDefault(&cfg.ReadPatience, 30*time.Second)
	orDefault(&cfg.PollInterval, 2*time.Second)
	orDefault(&cfg.Retention, time.Hour)
	orDefault(&cfg.MaintenanceInterval, 10*time.Second)
	orDefault(&cfg.Logger, slog.Default())
	if cfg.Tracer == nil {
		cfg.Tracer = otel.Tracer("howdah.dev/services/apiserver/store")
	}
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}
