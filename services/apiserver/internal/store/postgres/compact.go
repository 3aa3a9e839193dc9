package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// foldChunk is how many entries are moved while the writers wait: a few milliseconds.
	foldChunk = 256
	// historyChunk is how many changes are looked through in one transaction; nobody waits for it.
	historyChunk = 8192
)

// compact drops the partitions whose changes are all older than the retention. migrations/0004_compaction.sql says why the order is safe.
func (s *Store) compact(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	if err := s.finishDetached(ctx, conn); err != nil {
		return err
	}
	ps, err := partitions(ctx, conn)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	s.metrics.partitions.Set(float64(len(ps)))
	n, err := oldEnough(ctx, conn, ps, now.Add(-s.retention()))
	if err != nil {
		return fmt.Errorf("find old partitions: %w", err)
	}
	if n == 0 {
		return nil
	}
	begin := time.Now()
	// All at once: what is folded is folded once, however many partitions go.
	below := ps[n-1].high
	folded, err := s.fold(ctx, conn, below, ps[n:])
	s.metrics.folded.Add(float64(folded))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT howdah.compact($1)", below-1); err != nil {
		return fmt.Errorf("record compaction: %w", err)
	}
	s.metrics.compacted.Set(float64(below - 1))
	for _, p := range ps[:n] {
		if err := drop(ctx, conn, p); err != nil {
			return err
		}
	}
	s.metrics.partitions.Set(float64(len(ps) - n))
	s.metrics.compaction.Observe(time.Since(begin).Seconds())
	s.cfg.Logger.InfoContext(ctx, "change log compacted", "revision", below-1, "partitions", n, "folded", folded, "took", time.Since(begin))
	return nil
}

// fold moves the bytes that are still needed out of the changes below; later are the partitions that stay.
func (s *Store) fold(ctx context.Context, conn *pgx.Conn, below int64, later []partition) (folded int64, err error) {
	// The list is of one moment. A key that is written later has its bytes in a later change, so nothing is missed.
	rows, err := conn.Query(ctx, "SELECT key FROM howdah.object WHERE revision < $1 AND value IS NULL", below)
	if err != nil {
		return 0, fmt.Errorf("find entries to fold: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("find entries to fold: %w", err)
	}
	for len(keys) > 0 {
		n := min(foldChunk, len(keys))
		var moved int64
		if err := conn.QueryRow(ctx, "SELECT howdah.fold_objects($1, $2)", keys[:n], below).Scan(&moved); err != nil {
			return folded, fmt.Errorf("fold entries: %w", err)
		}
		folded += moved
		keys = keys[n:]
	}
	var newest int64
	if err := conn.QueryRow(ctx, "SELECT revision FROM howdah.counter").Scan(&newest); err != nil {
		return folded, fmt.Errorf("read the counter: %w", err)
	}
	// By partition, since there may be wide gaps between them.
	for _, p := range later {
		for low := p.low; low < p.high && low <= newest; low += historyChunk {
			var moved int64
			if err := conn.QueryRow(ctx, "SELECT howdah.fold_history($1, $2, $3)", low, min(low+historyChunk, p.high), below).Scan(&moved); err != nil {
				return folded, fmt.Errorf("fold history: %w", err)
			}
			folded += moved
		}
	}
	return folded, nil
}

// finishDetached completes what an earlier process was interrupted in.
func (s *Store) finishDetached(ctx context.Context, conn *pgx.Conn) error {
	ps, err := partitions(ctx, conn)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, p := range ps {
		if p.detaching {
			if _, err := conn.Exec(ctx, "ALTER TABLE howdah.change DETACH PARTITION "+p.name+" FINALIZE"); err != nil {
				return fmt.Errorf("finish detaching %s: %w", p.name, err)
			}
		}
	}
	rows, err := conn.Query(ctx, `
SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^change_\d+$' AND NOT c.relispartition`)
	if err != nil {
		return fmt.Errorf("list detached partitions: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list detached partitions: %w", err)
	}
	var failures []error
	for _, name := range names {
		if _, err := conn.Exec(ctx, "DROP TABLE "+name); err != nil {
			failures = append(failures, fmt.Errorf("drop %s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}

// drop detaches and drops one partition. DETACH CONCURRENTLY waits until no transaction can still look into it and, unlike plain
// DETACH, lets writers pass meanwhile.
func drop(ctx context.Context, conn *pgx.Conn, p partition) error {
	// Simple protocol: it must not run inside a transaction block.
	if _, err := conn.Exec(ctx, "ALTER TABLE howdah.change DETACH PARTITION "+p.name+" CONCURRENTLY", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("detach %s: %w", p.name, err)
	}
	if _, err := conn.Exec(ctx, "DROP TABLE "+p.name); err != nil {
		return fmt.Errorf("drop %s: %w", p.name, err)
	}
	return nil
}
