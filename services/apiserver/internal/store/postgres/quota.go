package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/services/apiserver/internal/store"
)

const (
	// tightRetention and fullRetention are how long the log is kept at most where room is scarce: as long as kube-apiserver keeps it in etcd, and
	// long enough for a watch that is resumed at once.
	tightRetention = 5 * time.Minute
	fullRetention  = 15 * time.Second
	// sampleBytes is how much of a table is read to find out what lives in its file.
	sampleBytes = 64 << 20
	// rowBytes are those that a row takes beside its key and values: its header, other columns and entries of indexes.
	rowBytes = 160
	// quotaPartitions is how many full partitions of the log there is room for at least.
	quotaPartitions = 8
	// revisionBytes is what a revision is taken to need in the log before a partition was filled.
	revisionBytes = 4 << 10
)

// scarcity is how much of the quota is used.
type scarcity int32

const (
	roomy    scarcity = iota // up to three quarters
	tight                    // up to all of it: the past is kept for a shorter time
	full                     // above it: nothing is created
	overfull                 // by a quarter: entries are only deleted
)

// scarcityOf judges bytes beside a quota; 0 is none.
func scarcityOf(used, quota int64) scarcity {
	switch {
	case quota == 0 || used <= quota/4*3:
		return roomy
	case used <= quota:
		return tight
	case used <= quota+quota/4:
		return full
	}
	return overfull
}

// retention is how long the log is kept where it should be for a time.
func (s scarcity) retention(wanted time.Duration) time.Duration {
	switch s {
	case roomy:
		return wanted
	case tight:
		return min(wanted, tightRetention)
	}
	return min(wanted, fullRetention)
}

// admits returns the error of writes for which there is no room.
func (s scarcity) admits(ws []store.Write) error {
	if s < full {
		return nil
	}
	for _, w := range ws {
		if w.Op == store.Create || s == overfull && w.Op != store.Delete {
			return store.ErrOverQuota
		}
	}
	return nil
}

// file is a table whose holes are filled by what is written next. Nobody gives them back.
type file struct {
	bytes int64 // with its indexes
	live  int64 // without holes; 0 is not measured
}

// used counts holes as room.
func (f file) used() int64 {
	if f.live == 0 {
		return f.bytes
	}
	return min(f.bytes, f.live+f.live/4)
}

// usage is what the store takes in the database.
type usage struct {
	objects file  // the present entries
	current file  // the partition of the log that is written
	log     int64 // the others, in bytes
}

func (u usage) bytes() int64 { return u.log + u.current.used() + u.objects.used() }

// scarcity is as it was found last; without a quota there is none.
func (s *Store) scarcity() scarcity { return scarcity(s.scarce.Load()) }

// watchRoom keeps the scarcity up to date.
func (s *Store) watchRoom(ctx context.Context) error {
	if s.cfg.Quota == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(s.cfg.MaintenanceInterval)
	defer ticker.Stop()
	for {
		// What was found last holds. Somebody may have a table to himself for a moment, as a vacuum that gives back its end.
		if err := s.lookAtRoom(ctx); err != nil && ctx.Err() == nil {
			if refused, is := answered(err); !is || refused.Code != lockNotAvailable {
				s.cfg.Logger.WarnContext(ctx, "measure the database", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (s *Store) lookAtRoom(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommitTimeout)
	defer cancel()
	u, err := s.measure(ctx)
	if err != nil {
		return err
	}
	before, now := s.scarcity(), scarcityOf(u.bytes(), s.cfg.Quota)
	s.scarce.Store(int32(now))
	over := 0.0
	if now >= full {
		over = 1
	}
	s.metrics.used.Set(float64(u.bytes()))
	s.metrics.overQuota.Set(over)
	switch {
	case now >= full && now != before:
		s.cfg.Logger.ErrorContext(ctx, "the database is over its quota: nothing is created until something was deleted", "bytes", u.bytes(), "quota", s.cfg.Quota)
	case now == tight && before < tight:
		s.cfg.Logger.WarnContext(ctx, "the database comes near its quota: the past is kept for a shorter time", "bytes", u.bytes(), "quota", s.cfg.Quota)
	case now < full && before >= full:
		s.cfg.Logger.InfoContext(ctx, "the database has room again", "bytes", u.bytes(), "quota", s.cfg.Quota)
	}
	return nil
}

// measure asks how large the files are, and, where that is much, what lives in those that are written.
func (s *Store) measure(ctx context.Context) (u usage, err error) {
	var current string
	err = s.pool.QueryRow(ctx, `
SELECT pg_total_relation_size('howdah.object'), p.name::text, pg_total_relation_size(p.name),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
         WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind = 'r' AND c.relname <> 'object' AND c.oid <> p.name)::bigint
  FROM howdah.counter n JOIN howdah.partition p ON p.low <= n.revision AND n.revision < p.high`).Scan(&u.objects.bytes, &current, &u.current.bytes, &u.log)
	if err != nil {
		return u, fmt.Errorf("sizes of tables: %w", err)
	}
	if scarcityOf(u.bytes(), s.cfg.Quota) == roomy {
		return u, nil
	}
	if u.objects.live, err = s.live(ctx, "howdah.object", "coalesce(pg_column_size(value), 0)"); err != nil {
		return u, err
	}
	u.current.live, err = s.live(ctx, current, "coalesce(pg_column_size(value), 0) + coalesce(pg_column_size(previous_value), 0)")
	return u, err
}

// live is how many bytes of a table live. Of a large one a sample is read, by pages.
func (s *Store) live(ctx context.Context, table, values string) (bytes int64, err error) {
	err = s.pool.QueryRow(ctx, `
WITH part AS (SELECT least(1, $1::float8 / greatest(1, pg_relation_size($2::regclass))) AS part)
SELECT greatest(1, coalesce(sum($3::bigint + 2 * octet_length(key) + `+values+`), 0) / (SELECT part FROM part))::bigint
  FROM `+table+` TABLESAMPLE SYSTEM ((SELECT 100 * part FROM part))`, float64(sampleBytes), table, rowBytes).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("what lives in %s: %w", table, err)
	}
	return bytes, nil
}

// mostRevisions bounds a partition of the log, which goes as a whole: there has to be room for several. A revision is taken to need as much as in the newest partition
// that is full.
func (s *Store) mostRevisions(ctx context.Context, conn *pgx.Conn, newest int64) (int64, error) {
	if s.cfg.Quota == 0 {
		return maxPartition, nil
	}
	bytes, revisions := int64(revisionBytes), int64(1)
	err := conn.QueryRow(ctx, "SELECT coalesce(pg_total_relation_size(name), 0), high - low FROM howdah.partition WHERE high <= $1 ORDER BY high DESC LIMIT 1", newest).Scan(&bytes, &revisions)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("size of a partition: %w", err)
	}
	return s.cfg.Quota / quotaPartitions / max(1, bytes/revisions), nil
}
