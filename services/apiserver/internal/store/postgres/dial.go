package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"howdah.dev/kit/database"
)

const (
	connectTimeout = 5 * time.Second
	// lockNotAvailable is the code of a statement that waited longer than lock_timeout.
	lockNotAvailable = "55P03"
	evictSQL         = "SELECT howdah.evict_stalled_writer()"
)

// dialer opens connections and makes sure, before one is used, that the database has not gone back in time.
type dialer struct {
	config *pgxpool.Config
	log    *slog.Logger
	// seen is the highest committed revision this process knows of.
	seen atomic.Int64
}

func newDialer(config *pgxpool.Config, cfg Config) *dialer {
	d := &dialer{config: config, log: cfg.Logger}
	base := config.ConnConfig
	// All statements go by a primary key. Plans that were made while a table was small or unanalyzed must not stay when it has grown.
	for name, value := range map[string]string{
		"application_name": "howdah-apiserver", "plan_cache_mode": "force_generic_plan", "jit": "off",
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
		"work_mem": "32MB",
		// Only serves to look, from time to time, whether a stalled peer holds the writers' lock.
		"lock_timeout": "2s",
	} {
		base.RuntimeParams[name] = value
	}
	return d
}

// pool answers a pool for reads; it connects as it is used.
func (d *dialer) pool(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	config := d.config.Copy()
	config.MaxConns = int32(connections)
	config.AfterConnect = d.check
	return pgxpool.NewWithConfig(ctx, config)
}

// connect opens one connection of its own, with settings over the common ones.
func (d *dialer) connect(ctx context.Context, settings map[string]string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	config := database.Fresh(ctx, d.config.ConnConfig)
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	// Commits are not cancelled, neither here nor by the check.
	seal := database.Uncancelled(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	seal()
	if err := d.check(ctx, conn); err != nil {
		closeNow(conn)
		return nil, err
	}
	return conn, nil
}

// check runs once a connection. A database that is known to have gone back gets its count put ahead (howdah.incarnate).
func (d *dialer) check(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var fsync, commit string
	var jumped bool
	err := conn.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit'), howdah.incarnate($1)",
		d.seen.Load()).Scan(&fsync, &commit, &jumped)
	if err == nil {
		err = database.Replicated(conn.PgConn())
	}
	if refused, _ := answered(err); refused != nil && refused.Code == lockNotAvailable {
		_, evicting := conn.Exec(ctx, evictSQL)
		err = errors.Join(err, evicting)
	}
	if err != nil {
		return fmt.Errorf("check the database's identity: %w", err)
	}
	if commit == "off" {
		// After a crash its revisions would be given a second time. Stronger settings than on are the operator's to choose.
		if _, err := conn.Exec(ctx, "SET synchronous_commit = on"); err != nil {
			return fmt.Errorf("make commits durable: %w", err)
		}
	}
	if jumped {
		d.log.ErrorContext(ctx, "the database went back in time; its revisions were put ahead and all caches must be rebuilt",
			"seen", d.seen.Load())
	}
	return nil
}

// saw remembers a committed revision.
func (d *dialer) saw(revision int64) {
	for {
		old := d.seen.Load()
		if revision <= old || d.seen.CompareAndSwap(old, revision) {
			return
		}
	}
}

// closeNow gives a connection up without waiting for the other side's farewell.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// backoff waits longer after every failure: 10 ms doubled up to 1 s, of which it takes a random half.
type backoff struct{ failures int }

func (b *backoff) reset() { b.failures = 0 }

// wait answers ctx's error when that ends first.
func (b *backoff) wait(ctx context.Context) error {
	full := min(time.Second, 10*time.Millisecond<<min(b.failures, 10))
	b.failures++
	timer := time.NewTimer(full/2 + rand.N(full/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// answered tells whether the server itself refused the statement and lives on: then the transaction is known to be undone.
// A FATAL answer ends the session and may come after the commit.
func answered(err error) (*pgconn.PgError, bool) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.SeverityUnlocalized != "FATAL" && refused.SeverityUnlocalized != "PANIC" {
		return refused, true
	}
	return nil, false
}
