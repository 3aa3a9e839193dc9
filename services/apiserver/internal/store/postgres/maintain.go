package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// minPartition and maxPartition bound the size of a partition of the log, in revisions.
	minPartition = int64(1) << 16
	maxPartition = int64(1) << 24
	// partitionsAWindow is how many partitions the retention is divided into: few, since every one costs planning time,
	// but enough that the log is not much longer than asked for.
	partitionsAWindow = 4
	// partitionsARound bounds how many partitions a round makes: whatever the rate is taken for, planning must not come to know of thousands. A commit that
	// finds none makes one.
	partitionsARound = 64
	// maintenanceLock lets one process at a time look after the partitions.
	maintenanceLock = 0x686f7779
)

// maintain keeps partitions ready ahead of the writers and compacts behind the retention.
func (s *Store) maintain(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.MaintenanceInterval)
	defer ticker.Stop()
	m := maintainer{store: s}
	for {
		if _, err := m.round(ctx); err != nil && ctx.Err() == nil {
			s.metrics.maintainFailed.Inc()
			s.cfg.Logger.WarnContext(ctx, "maintenance of the change log failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// partition of the log; holds low <= revision < high.
type partition struct {
	name      string
	low, high int64
	detaching bool
}

// reading is a state of the log at a moment, for the rate of writes.
type reading struct {
	revision    int64
	incarnation int64 // of the database: with each, the revisions jump (howdah.incarnate)
	at          time.Time
}

// maintainer remembers what rounds of maintenance have to know of earlier ones.
type maintainer struct {
	store *Store
	last  reading
	rate  float64 // revisions a second, smoothed
	// trimmed is when the partition that is written was trimmed last.
	trimmed time.Time
}

// round does what there is to do, unless another process is at it: then mine is false.
func (m *maintainer) round(ctx context.Context) (mine bool, err error) {
	// A generous bound: DETACH waits for the longest reader.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	conn, err := m.store.dial.connect(ctx, map[string]string{"application_name": "howdah-apiserver-maintain", "lock_timeout": "0"})
	if err != nil {
		return false, err
	}
	defer closeNow(conn) // and give the lock back
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", maintenanceLock).Scan(&mine); err != nil || !mine {
		return false, err
	}
	var now reading
	const look = "SELECT revision, (SELECT coalesce(max(number), 0) FROM howdah.incarnation), clock_timestamp() FROM howdah.counter"
	if err := conn.QueryRow(ctx, look).Scan(&now.revision, &now.incarnation, &now.at); err != nil {
		return true, err
	}
	m.observe(now)
	size := m.store.cfg.PartitionSize
	if size == 0 {
		most, err := m.store.mostRevisions(ctx, conn, now.revision)
		if err != nil {
			return true, err
		}
		size = partitionSize(m.rate, m.store.retention(), most)
	}
	ahead := ahead(m.rate, m.store.cfg.MaintenanceInterval, size)
	if _, err := conn.Exec(ctx, "SELECT howdah.extend_log($1, $2)", ahead, size); err != nil {
		return true, fmt.Errorf("extend the log: %w", err)
	}
	if err := m.store.compact(ctx, conn, now.at); err != nil {
		return true, err
	}
	return true, m.trim(ctx, conn, now)
}

// ahead answers for how many revisions there is to be room: for what may be written until the round after the next one, should the rate double.
func ahead(rate float64, interval time.Duration, size int64) int64 {
	want := min(4*rate*interval.Seconds(), float64(partitionsARound*size))
	return max(size/2, int64(want))
}

// observe updates the rate of writes. Between two incarnations nothing was written: the revisions have jumped.
func (m *maintainer) observe(now reading) {
	if elapsed := now.at.Sub(m.last.at).Seconds(); !m.last.at.IsZero() && elapsed > 0 && now.revision >= m.last.revision && now.incarnation == m.last.incarnation {
		rate := float64(now.revision-m.last.revision) / elapsed
		// Up at once, down slowly: too small partitions are worse than too large ones.
		m.rate = max(rate, 0.9*m.rate+0.1*rate)
	}
	m.last = now
}

// retention is how long the log is kept now.
func (s *Store) retention() time.Duration { return s.scarcity().retention(s.cfg.Retention) }

// partitionSize answers how many revisions the next partition should hold, a power of two: at most so many, unless it were too small.
func partitionSize(rate float64, retention time.Duration, most int64) int64 {
	want := rate * retention.Seconds() / partitionsAWindow
	size := minPartition
	for size < maxPartition && 2*size <= most && float64(size) < want {
		size *= 2
	}
	return size
}

func partitions(ctx context.Context, conn *pgx.Conn) ([]partition, error) {
	rows, err := conn.Query(ctx, "SELECT name::text, low, high, detaching FROM howdah.partition ORDER BY low")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p partition, err error) {
		err = row.Scan(&p.name, &p.low, &p.high, &p.detaching)
		return p, err
	})
}

// oldEnough answers how many of the partitions, which are in order, can go: everything in them was written before the retention.
// The time of a partition's end is that of the first change after it.
func oldEnough(ctx context.Context, conn *pgx.Conn, ps []partition, before time.Time) (int, error) {
	n := 0
	for _, p := range ps {
		var next time.Time
		err := conn.QueryRow(ctx, "SELECT time FROM howdah.change WHERE revision >= $1 ORDER BY revision LIMIT 1", p.high).Scan(&next)
		if errors.Is(err, pgx.ErrNoRows) {
			return n, nil // it holds the newest change
		}
		if err != nil {
			return 0, err
		}
		if !next.Before(before) {
			return n, nil
		}
		n++
	}
	return n, nil
}
