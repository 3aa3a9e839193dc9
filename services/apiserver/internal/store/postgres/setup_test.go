package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
	"howdah.dev/services/apiserver/internal/store/storetest"
)

// smallPartition lets tests fill and compact partitions with few writes.
const smallPartition = 16

// database answers a migrated database whose log has small partitions from the start.
func database(t testing.TB) string {
	return pgtest.New(t, pgtest.Template{Name: "howdah", Setup: func(ctx context.Context, url string) error {
		if err := migrations.Apply(ctx, url); err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "DROP TABLE howdah.change_1; SELECT howdah.add_partition(1, 17)")
		return err
	}})
}

// open runs a store until the test ends. It looks after partitions only when told to.
func open(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	cfg.MaintenanceInterval = time.Hour
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return run(t, cfg)
}

// openQuiet is open for tests that break the database: they look after partitions as in production, and log nothing.
func openQuiet(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	cfg.MaintenanceInterval = time.Second
	cfg.Logger = slog.New(slog.DiscardHandler)
	return run(t, cfg)
}

func run(t testing.TB, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func query[T any](t testing.TB, url, sql string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var result T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&result); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return result
}

func exec(t testing.TB, url, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// state is a database as storetest wants it.
type state struct {
	url     string
	janitor *postgres.Store
	// trims says that partitions have their usual size, and are compacted as where the quota is used up.
	trims bool
}

func (s *state) partition() int64 {
	if s.trims {
		return 0
	}
	return smallPartition
}

func (s *state) Open(t testing.TB) store.Store {
	return open(t, postgres.Config{DatabaseURL: s.url, PartitionSize: s.partition()})
}

func (s *state) Compact(t testing.TB) int64 {
	t.Helper()
	if s.janitor == nil || s.trims {
		// It does not run: a store that does looks after its partitions when it starts, which on a busy machine may be at any time.
		var err error
		s.janitor, err = postgres.New(postgres.Config{DatabaseURL: s.url, PartitionSize: s.partition(), Retention: s.retention(t)})
		if err != nil {
			t.Fatal(err)
		}
		if s.trims {
			s.janitor.BeFull()
		}
	}
	if err := s.janitor.MaintainOnce(t.Context()); err != nil {
		t.Errorf("maintenance: %v", err)
	}
	return query[int64](t, s.url, "SELECT compacted FROM howdah.counter")
}

// retention is the age of the change in the middle, where that is a bound.
func (s *state) retention(t testing.TB) time.Duration {
	if !s.trims {
		return time.Nanosecond
	}
	return query[time.Duration](t, s.url, `
SELECT coalesce(
	(SELECT clock_timestamp() - c.time FROM howdah.change c, howdah.counter n WHERE c.revision > n.compacted + (n.revision - n.compacted) / 2 ORDER BY c.revision LIMIT 1),
	interval '1 hour')`)
}

func (s *state) Lead(t testing.TB, role string) int64 {
	t.Helper()
	return query[int64](t, s.url, "SELECT howdah.lead($1, 'test')", role)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.State { return &state{url: database(t)} })
}

// TestTrimmedStore holds the store to the same where the log is compacted within a partition.
func TestTrimmedStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.State {
		url := pgtest.New(t, pgtest.Template{Name: "unsplit", Setup: func(ctx context.Context, url string) error { return migrations.Apply(ctx, url) }})
		return &state{url: url, trims: true}
	})
}
