package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// lookEvery is how often it is looked what is too old or too much; lookPatience bounds one look.
	lookEvery    = time.Minute
	lookPatience = 2 * time.Minute
)

// retain drops hours until ctx ends.
func (s *Store) retain(ctx context.Context) error {
	for {
		if err := s.Retain(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "drop old lines", "err", err)
		}
		timer := s.cfg.Clock.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// Retain drops what is too old or too much now. Of several processes one does.
func (s *Store) Retain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	conn, err := s.writes.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(hourLock+1)).Scan(&mine); err != nil || !mine {
		return err
	}
	defer func() {
		unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		if _, err := conn.Exec(unlock, "SELECT pg_advisory_unlock($1)", int64(hourLock+1)); err != nil {
			_ = conn.Conn().Close(unlock) // which gives the lock back, too
		}
	}()
	all, err := list(ctx, conn)
	if err != nil {
		return err
	}
	drop := surplus(all, s.cfg.Clock.Now(), s.cfg.Retention, s.cfg.MaxBytes)
	var left int64
	for _, h := range all[len(drop):] {
		left += h.bytes
	}
	var problems []error
	dropped := 0
	for _, h := range drop {
		if err := remove(ctx, conn.Conn(), h); err != nil {
			problems = append(problems, err)
			left += h.bytes
			continue
		}
		dropped++
		slog.InfoContext(ctx, "dropped an hour of lines", "hour", h.begin.Format(time.RFC3339), "bytes", h.bytes)
	}
	if dropped > 0 {
		s.forget()
		oldest := s.cfg.Clock.Now().Add(-s.cfg.Retention)
		if len(drop) < len(all) {
			oldest = later(oldest, all[len(drop)].begin)
		}
		if _, err := conn.Exec(ctx, "DELETE FROM howdah_logs.run WHERE last < $1", oldest); err != nil {
			problems = append(problems, fmt.Errorf("forget runs: %w", err))
		}
	}
	if s.cfg.Kept != nil {
		s.cfg.Kept(left, dropped)
	}
	return errors.Join(problems...)
}

// surplus returns the first of the hours, which are in order: those that are too old, and with them all are too many bytes.
func surplus(all []hour, now time.Time, retention time.Duration, most int64) []hour {
	var total int64
	for _, h := range all {
		total += h.bytes
	}
	n := 0
	for n < len(all) && (!all[n].begin.Add(time.Hour).After(now.Add(-retention)) || total > most) {
		total -= all[n].bytes
		n++
	}
	return all[:n]
}

// remove drops an hour. It is first taken out of the parent, without a lock that holds up those who read that; one who reads the hour itself has lock_timeout to end.
func remove(ctx context.Context, conn *pgx.Conn, h hour) error {
	name := schema + "." + h.name
	if h.attached {
		how := "CONCURRENTLY"
		if h.leaving {
			how = "FINALIZE"
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s.line DETACH PARTITION %s %s", schema, name, how), pgx.QueryExecModeSimpleProtocol); err != nil {
			if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != undefinedTable {
				return fmt.Errorf("detach %s: %w", name, err)
			}
		}
	}
	if _, err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+name); err != nil {
		return fmt.Errorf("drop %s: %w", name, err)
	}
	return nil
}
