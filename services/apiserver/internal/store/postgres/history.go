package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/services/apiserver/internal/store"
)

// chainLimit bounds the changes of one key that are walked through.
const chainLimit = 100_000

// chainSQL answers the revisions of a key's changes, newest first: each life is chained backwards from its present entry or from its
// deletion, by primary keys.
const chainSQL = `
WITH RECURSIVE head AS (
    SELECT o.revision FROM howdah.object o WHERE o.key = $1
    UNION ALL
    SELECT d.revision FROM howdah.change d WHERE d.key = $1 AND d.operation = 3
), chain AS (
    SELECT c.revision, c.previous_revision, c.time FROM head h JOIN howdah.change c ON c.revision = h.revision
    UNION ALL
    SELECT c.revision, c.previous_revision, c.time FROM chain n JOIN howdah.change c ON c.revision = n.previous_revision
)
SELECT revision, previous_revision, time FROM (SELECT * FROM chain LIMIT $2) c ORDER BY revision DESC`

const versionsSQL = `
SELECT c.revision, c.previous_revision, c.create_revision, c.time, c.operation, c.last, c.key, coalesce(c.trace_context, ''),
       coalesce(c.actor, ''), coalesce(c.origin, ''), c.value,
       coalesce(c.previous_value, (SELECT p.value FROM howdah.change p WHERE p.revision = c.previous_revision))
  FROM unnest($1::bigint[]) r(revision) JOIN howdah.change c ON c.revision = r.revision
 ORDER BY c.revision DESC`

const windowSQL = `
SELECT n.revision, n.compacted, (SELECT c.time FROM howdah.change c WHERE c.revision > n.compacted ORDER BY c.revision LIMIT 1)
  FROM howdah.counter n`

// History implements store.Historian.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) (store.Versions, error) {
	if err := s.connected(ctx); err != nil {
		return store.Versions{}, err
	}
	var versions store.Versions
	err := s.retryRead(ctx, func(ctx context.Context) error {
		// One snapshot: a compaction in between would take away what the chain leads to.
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
			versions, err = history(ctx, tx, q)
			return err
		})
	})
	return versions, err
}

// link is a change in the chain of its key.
type link struct {
	revision, previous int64
	time               time.Time
}

func history(ctx context.Context, tx pgx.Tx, q store.HistoryQuery) (store.Versions, error) {
	var v store.Versions
	var oldest *time.Time
	if err := tx.QueryRow(ctx, windowSQL).Scan(&v.Revision, &v.Compacted, &oldest); err != nil {
		return v, err
	}
	if oldest != nil {
		v.Oldest = oldest.UTC()
	}
	rows, err := tx.Query(ctx, chainSQL, q.Key, chainLimit)
	if err != nil {
		return v, err
	}
	chain, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l link, err error) {
		err = row.Scan(&l.revision, &l.previous, &l.time)
		return l, err
	})
	if err != nil {
		return v, err
	}
	selected, more := choose(chain, v.Compacted, q)
	v.More = more
	if v.Changes, err = changes(ctx, tx, selected); err != nil {
		return v, err
	}
	v.Base, err = base(ctx, tx, q.Key, chain, v.Compacted)
	return v, err
}

// choose answers the revisions that the query selects of the chain, which is newest first, and whether older ones were left out for the limit.
func choose(chain []link, compacted int64, q store.HistoryQuery) (revisions []int64, more bool) {
	for _, l := range chain {
		if q.Before > 0 && l.revision >= q.Before {
			continue
		}
		if l.revision <= compacted || l.time.Before(q.Since) {
			break
		}
		if q.Limit > 0 && len(revisions) == q.Limit {
			return revisions, true
		}
		revisions = append(revisions, l.revision)
	}
	return revisions, false
}

func changes(ctx context.Context, tx pgx.Tx, revisions []int64) ([]store.Change, error) {
	if len(revisions) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, versionsSQL, revisions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanChange)
}

func scanChange(row pgx.CollectableRow) (store.Change, error) {
	c := store.Change{Event: store.Event{Type: store.Put}}
	var operation int16
	var previous []byte
	err := row.Scan(&c.Revision, &c.PreviousRevision, &c.CreateRevision, &c.Time, &operation, &c.Last, &c.Key, &c.Trace, &c.Actor,
		&c.Origin, &c.Value, &previous)
	if err != nil {
		return c, err
	}
	c.Time = c.Time.UTC()
	if store.Op(operation) == store.Delete {
		c.Type, c.Value = store.Removed, nil
	}
	if c.PreviousRevision > 0 {
		c.Previous = &store.Entry{Key: c.Key, Value: previous, Revision: c.PreviousRevision, CreateRevision: c.CreateRevision}
		if previous == nil {
			return c, missingBytes(*c.Previous)
		}
	}
	return c, nil
}

// base answers the state from before the oldest change of the chain that is kept.
func base(ctx context.Context, tx pgx.Tx, key string, chain []link, compacted int64) (*store.Entry, error) {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i].revision <= compacted {
			continue
		}
		if chain[i].previous == 0 {
			return nil, nil
		}
		first, err := changes(ctx, tx, []int64{chain[i].revision})
		if err != nil || len(first) == 0 {
			return nil, err
		}
		return first[0].Previous, nil
	}
	entry := store.Entry{Key: key}
	err := tx.QueryRow(ctx, getSQL, key).Scan(&entry.Revision, &entry.CreateRevision, &entry.Value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err == nil && entry.Value == nil {
		err = missingBytes(entry)
	}
	return &entry, err
}

// RevisionAt implements store.Historian.
func (s *Store) RevisionAt(ctx context.Context, at time.Time) (int64, error) {
	if err := s.connected(ctx); err != nil {
		return 0, err
	}
	var revision *int64
	var now time.Time
	err := s.retryRead(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT howdah.revision_at($1), clock_timestamp()", at).Scan(&revision, &now)
	})
	switch {
	case err != nil:
		return 0, err
	case at.After(now):
		return 0, fmt.Errorf("%w: %s asked for, it is %s", store.ErrFuture, at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case revision == nil:
		return 0, fmt.Errorf("%w: the log begins after %s", store.ErrTooOld, at.UTC().Format(time.RFC3339))
	}
	return *revision, nil
}
