// Package store keeps log lines in PostgreSQL: a table an hour, dropped when it is too old or all of them are too large, and of each run of a
// container how far it has come, so that nothing is stored twice.
package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"k8s.io/utils/clock"

	"howdah.dev/kit/database"
)

const connectTimeout = 5 * time.Second

// Config of a Store.
type Config struct {
	DatabaseURL string
	// Retention is how long lines stay, MaxBytes how much room all of them may take with their indexes.
	Retention time.Duration
	MaxBytes  int64
	// Connections bounds those for writing and those for reading, each.
	Connections int
	Clock       clock.WithTicker
	// Kept hears of the room that lines take, in bytes, and of the hours that were dropped.
	Kept func(bytes int64, dropped int)
}

// Store keeps lines. Its methods may be called from any goroutine.
type Store struct {
	cfg           Config
	writes, reads *pgxpool.Pool

	mu    sync.Mutex
	hours map[string]bool // tables that are known to be there
}

// New returns a store; it connects as it is used.
func New(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, hours: map[string]bool{}}
	var err error
	// A write that waits for a lock, or for a database that does not answer, fails and is sent again.
	s.writes, err = s.pool(map[string]string{"statement_timeout": "30s", "lock_timeout": "5s"})
	if err != nil {
		return nil, err
	}
	// A search has one core for so long, and not more memory than a batch of lines needs.
	s.reads, err = s.pool(map[string]string{"statement_timeout": "8s", "lock_timeout": "2s", "work_mem": "16MB", "max_parallel_workers_per_gather": "0", "default_transaction_read_only": "on"})
	if err != nil {
		s.writes.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) pool(settings map[string]string) (*pgxpool.Pool, error) {
	config, err := database.PoolConfig(s.cfg.DatabaseURL, connectTimeout)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = int32(s.cfg.Connections)
	config.MaxConnIdleTime = 5 * time.Minute
	settings["application_name"], settings["jit"] = "howdah-logs", "off"
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	// Tables come and go, and plans of statements that name them with them.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	return pgxpool.NewWithConfig(context.Background(), config)
}

// Ping reports whether the database answers, and has the schema.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.reads.Exec(ctx, "SELECT FROM howdah_logs.run LIMIT 0")
	return err
}

// Run drops what is too old or too much until ctx ends, and closes the connections then.
func (s *Store) Run(ctx context.Context) error {
	defer s.reads.Close()
	defer s.writes.Close()
	return s.retain(ctx)
}
