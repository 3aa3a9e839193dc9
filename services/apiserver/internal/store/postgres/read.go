package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/kit/database"
	"howdah.dev/services/apiserver/internal/store"
)

const getSQL = `
SELECT o.revision, o.create_revision, coalesce(o.value, c.value)
  FROM howdah.object o LEFT JOIN howdah.change c ON o.value IS NULL AND c.revision = o.revision
 WHERE o.key = $1`

// What is read as it is now is confirmed (database.Confirmed): by the primary, and not to be lost any more. So is that a key is not there, by NULLs.
const getConfirmedSQL = `
SELECT o.* FROM (SELECT ` + database.Confirmed + ` AS confirmed) f LEFT JOIN LATERAL (` + getSQL + `) o ON f.confirmed`

// $1 <= key <= $2 is the prefix's range, $3 the key to start behind, $4 the limit or NULL.
const listSQL = `
SELECT n.revision, n.compacted, e.*
  FROM howdah.counter n LEFT JOIN LATERAL (
       SELECT o.key, o.revision, o.create_revision, coalesce(o.value, c.value)
         FROM howdah.object o LEFT JOIN howdah.change c ON o.value IS NULL AND c.revision = o.revision
        WHERE o.key >= $1 AND o.key <= $2 AND o.key > $3
        ORDER BY o.key LIMIT $4) e ON true`

// The state at revision $5: what has not changed since, and what the first later change of each other key replaced.
const listAtSQL = `
SELECT n.revision, n.compacted, e.*
  FROM howdah.counter n LEFT JOIN LATERAL (
       SELECT o.key, o.revision, o.create_revision, coalesce(o.value, c.value)
         FROM howdah.object o LEFT JOIN howdah.change c ON o.value IS NULL AND c.revision = o.revision
        WHERE o.key >= $1 AND o.key <= $2 AND o.key > $3 AND o.revision <= $5
        UNION ALL
       SELECT f.key, f.previous_revision, f.create_revision,
              coalesce(f.previous_value, (SELECT p.value FROM howdah.change p WHERE p.revision = f.previous_revision))
         FROM (SELECT DISTINCT ON (l.key) l.key, l.previous_revision, l.create_revision, l.previous_value
                 FROM howdah.change l
                WHERE l.revision > $5 AND l.key >= $1 AND l.key <= $2 AND l.key > $3
                ORDER BY l.key, l.revision) f
        WHERE f.previous_revision > 0
        ORDER BY 1 LIMIT $4) e ON true`

// Get implements store.Reader.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	entry := store.Entry{Key: key}
	if err := s.connected(ctx); err != nil {
		return entry, err
	}
	var revision, create *int64
	err := s.retryRead(ctx, func(ctx context.Context) error {
		err := s.confirmedRow(ctx, getConfirmedSQL, []any{key}, &revision, &create, &entry.Value)
		if err == nil && revision != nil && entry.Value == nil {
			err = missingBytes(store.Entry{Key: key, Revision: *revision})
		}
		return err
	})
	switch {
	case err != nil:
		return entry, err
	case revision == nil:
		return entry, store.ErrNotFound
	}
	entry.Revision, entry.CreateRevision = *revision, *create
	return entry, nil
}

// List implements store.Reader.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.connected(ctx); err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err := s.retryRead(ctx, func(ctx context.Context) (err error) {
		page, err = s.list(ctx, q)
		return err
	})
	return page, err
}

func (s *Store) list(ctx context.Context, q store.Query) (store.Page, error) {
	sql, args := listSQL, []any{q.Prefix, q.Prefix + "\U0010FFFF", q.After, (*int64)(nil)}
	if q.Limit > 0 {
		// One more than asked tells whether there is a further page.
		limit := int64(q.Limit) + 1
		args[3] = &limit
	}
	if q.Revision > 0 {
		sql, args = listAtSQL, append(args, q.Revision)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return store.Page{}, err
	}
	defer rows.Close()
	page := store.Page{Entries: []store.Entry{}}
	var newest, compacted int64
	for rows.Next() {
		var key *string
		var revision, create *int64
		var value []byte
		if err := rows.Scan(&newest, &compacted, &key, &revision, &create, &value); err != nil {
			return store.Page{}, err
		}
		if key == nil {
			break // the row of the outer join that matched nothing
		}
		page.Entries = append(page.Entries, store.Entry{Key: *key, Value: value, Revision: *revision, CreateRevision: *create})
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return store.Page{}, err
	}
	// Afterwards, so that a long list has the time that it takes, and the confirmation its own.
	var confirmed bool
	if err := s.confirmed(ctx, conn, confirmSQL, nil, &confirmed); err != nil {
		return store.Page{}, err
	}
	s.dial.saw(newest)
	page.Revision = newest
	if q.Revision > 0 {
		page.Revision = q.Revision
		if err := within(q.Revision, compacted, newest); err != nil {
			return store.Page{}, err
		}
	}
	for _, e := range page.Entries {
		if e.Value == nil {
			return store.Page{}, missingBytes(e)
		}
	}
	if q.Limit > 0 && len(page.Entries) > q.Limit {
		page.Entries = page.Entries[:q.Limit]
		page.Next = page.Entries[q.Limit-1].Key
	}
	return page, nil
}

func within(revision, compacted, newest int64) error {
	if revision < compacted {
		return fmt.Errorf("%w: %d asked for, states are kept from %d on", store.ErrTooOld, revision, compacted)
	}
	if revision > newest {
		return fmt.Errorf("%w: %d asked for, the newest is %d", store.ErrFuture, revision, newest)
	}
	return nil
}

// missingBytes may pass: a statement that was planned before a partition of the log was attached, and run after a write into it, does not
// look there.
func missingBytes(e store.Entry) error {
	return fmt.Errorf("the bytes of %s at revision %d are missing from the database", e.Key, e.Revision)
}

// retryRead repeats a read while the reason of its failure is one that passes.
func (s *Store) retryRead(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadPatience)
	defer cancel()
	var retry backoff
	for {
		err := read(ctx)
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%w: it has been stopped", store.ErrUnavailable)
		default:
		}
		if retry.wait(ctx) != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
}

// passing tells whether a read that failed with err may succeed later as it is.
func passing(err error) bool {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, store.ErrTooOld) || errors.Is(err, store.ErrFuture) {
		return false
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code[:2] {
		case "08", "40", "53", "55", "57", "58":
			return true
		}
		return false
	}
	var scan pgx.ScanArgError
	return !errors.As(err, &scan)
}
