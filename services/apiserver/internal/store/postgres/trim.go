package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// trimInterval is how often the partition that is written is trimmed at most.
const trimInterval = 15 * time.Second

// trim takes what is older than the retention out of the partition that is written, where room is scarce: large values can make it large long before it has all its
// revisions, and goes as a whole. Its file stays as it is, and what is written next fills the holes. The order is that of compaction.
func (m *maintainer) trim(ctx context.Context, conn *pgx.Conn, now reading) error {
	s := m.store
	if s.scarcity() < tight || now.at.Sub(m.trimmed) < trimInterval {
		return nil
	}
	ps, err := partitions(ctx, conn)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	if len(ps) == 0 || now.revision < ps[0].low || now.revision >= ps[0].high {
		return nil // one that is not written any more goes as a whole before
	}
	current := ps[0]
	var upTo int64
	// The newest change stays, as in compaction.
	err = conn.QueryRow(ctx, "SELECT revision FROM howdah.change WHERE revision < $1 AND last AND time < $2 ORDER BY revision DESC LIMIT 1", now.revision, now.at.Add(-s.retention())).Scan(&upTo)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find what is old: %w", err)
	}
	m.trimmed = now.at
	later := append([]partition{{name: current.name, low: upTo + 1, high: current.high}}, ps[1:]...)
	folded, err := s.fold(ctx, conn, upTo+1, later)
	s.metrics.folded.Add(float64(folded))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT howdah.compact($1)", upTo); err != nil {
		return fmt.Errorf("record compaction: %w", err)
	}
	s.metrics.compacted.Set(float64(upTo))
	removed, err := remove(ctx, conn, upTo)
	if err != nil {
		return err
	}
	// TRUNCATE would have the writers wait. Simple protocol: it must not run inside a transaction block.
	if _, err := conn.Exec(ctx, "VACUUM (TRUNCATE false) "+current.name, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("vacuum %s: %w", current.name, err)
	}
	s.cfg.Logger.InfoContext(ctx, "change log trimmed", "revision", upTo, "removed", removed, "folded", folded)
	return nil
}

// remove deletes the changes up to a revision, which nobody reads any more.
func remove(ctx context.Context, conn *pgx.Conn, upTo int64) (removed int64, err error) {
	var low *int64
	if err := conn.QueryRow(ctx, "SELECT min(revision) FROM howdah.change").Scan(&low); err != nil || low == nil {
		return 0, err
	}
	for from := *low; from <= upTo; from += historyChunk {
		tag, err := conn.Exec(ctx, "DELETE FROM howdah.change WHERE revision >= $1 AND revision <= $2", from, min(from+historyChunk-1, upTo))
		if err != nil {
			return removed, fmt.Errorf("remove old changes: %w", err)
		}
		removed += tag.RowsAffected()
	}
	return removed, nil
}
