package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/services/apiserver/internal/store"
)

const (
	// replayChunk is how many changes are answered at once where the query names no limit.
	replayChunk = 512
	// replaySpan is how many revisions one statement looks through: keys have no index in the log.
	replaySpan = 16384
	// replayBytes ends a piece early, so that big values do not fill the memory.
	replayBytes = 16 << 20
	// replayTimeout bounds one statement.
	replayTimeout = 20 * time.Second
)

// One statement, hence one snapshot: when compacted <= $1 in it, every change of the span is in it, with what it replaced. $1 is the
// revision to begin behind, $2 the one to end at, $3 the prefix and $4 the end of its range, $5 whether to answer what was
// replaced, $6 how many changes at most, $7 the span.
const replaySQL = `
SELECT n.revision, n.compacted, b.through, e.*
  FROM howdah.counter n
 CROSS JOIN LATERAL (
       SELECT coalesce((SELECT l.revision FROM howdah.change l
                         WHERE l.revision >= least($2::bigint, $1::bigint + $7::bigint) AND l.last ORDER BY l.revision LIMIT 1), $2) AS through) b
  LEFT JOIN LATERAL (
       SELECT c.revision, c.previous_revision, c.create_revision, c.time, c.operation, c.last, c.key,
              coalesce(c.trace_context, ''), coalesce(c.actor, ''), c.value,
              CASE WHEN c.previous_revision > 0 AND ($5 OR c.operation = 3) THEN
                   coalesce(c.previous_value, (SELECT p.value FROM howdah.change p WHERE p.revision = c.previous_revision)) END AS previous,
              CASE WHEN c.last THEN c.revision ELSE
                   (SELECT l.revision FROM howdah.change l WHERE l.revision > c.revision AND l.last ORDER BY l.revision LIMIT 1) END AS ends
         FROM howdah.change c
        WHERE c.revision > $1 AND c.revision <= b.through AND c.key >= $3 AND c.key <= $4
        ORDER BY c.revision LIMIT $6) e ON true
 ORDER BY e.revision`

// Replay implements store.Replayer.
func (s *Store) Replay(ctx context.Context, q store.ReplayQuery) (store.Replay, error) {
	if err := s.connected(ctx); err != nil {
		return store.Replay{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = replayChunk
	}
	for {
		var piece store.Replay
		var whole bool
		err := s.retryRead(ctx, func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, replayTimeout)
			defer cancel()
			piece, whole, err = s.replay(ctx, q, limit)
			return err
		})
		if err != nil || whole {
			return piece, err
		}
		limit *= 2 // the first group is longer than that
	}
}

// replayed is a row of the replay.
type replayed struct {
	newest, compacted, through int64
	change                     *store.Change // nil in the one row of a piece without changes
	group                      int64
}

// replay answers the next piece, and false where the limit did not suffice for its first group.
func (s *Store) replay(ctx context.Context, q store.ReplayQuery, limit int) (store.Replay, bool, error) {
	rows, err := s.pool.Query(ctx, replaySQL, q.After, q.To, q.Prefix, q.Prefix+"\U0010FFFF", q.Previous, limit, replaySpan)
	if err != nil {
		return store.Replay{}, false, err
	}
	defer rows.Close()
	var piece store.Replay
	ended, bytes, read := false, 0, 0
	for rows.Next() {
		row, err := scanReplayed(rows, q)
		if err != nil {
			return store.Replay{}, false, err
		}
		if read++; read == 1 {
			s.dial.saw(row.newest)
			piece.Compacted, piece.Through = row.compacted, max(row.through, q.After)
			if err := replayable(q, row); err != nil {
				return store.Replay{Compacted: row.compacted}, false, err
			}
		}
		if row.change == nil {
			continue
		}
		if n := len(piece.Groups); bytes > replayBytes && piece.Groups[n-1] != row.group {
			piece.Through, ended = piece.Groups[n-1], true
			break
		}
		piece.Changes, piece.Groups = append(piece.Changes, *row.change), append(piece.Groups, row.group)
		bytes += len(row.change.Value)
		if row.change.Previous != nil {
			bytes += len(row.change.Previous.Value)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return store.Replay{}, false, err
	}
	if ended || len(piece.Changes) < limit {
		return piece, true, nil
	}
	// There may be more: the last group may not be whole.
	n := len(piece.Groups)
	if last := piece.Groups[n-1]; piece.Changes[n-1].Revision != last {
		for n > 0 && piece.Groups[n-1] == last {
			n--
		}
	}
	if n == 0 {
		return piece, false, nil
	}
	piece.Changes, piece.Groups = piece.Changes[:n], piece.Groups[:n]
	piece.Through = piece.Groups[n-1]
	return piece, true, nil
}

func replayable(q store.ReplayQuery, row replayed) error {
	if q.After < row.compacted {
		return fmt.Errorf("%w: %d asked for, the log begins after %d", store.ErrTooOld, q.After, row.compacted)
	}
	if q.To > row.newest {
		return fmt.Errorf("%w: %d asked for, the newest is %d", store.ErrFuture, q.To, row.newest)
	}
	return nil
}

func scanReplayed(rows pgx.Rows, q store.ReplayQuery) (replayed, error) {
	var r replayed
	var revision, previousRevision, create, group *int64
	var at *time.Time
	var operation *int16
	var last *bool
	var key, trace, actor *string
	var value, previous []byte
	err := rows.Scan(&r.newest, &r.compacted, &r.through, &revision, &previousRevision, &create, &at, &operation, &last, &key, &trace, &actor,
		&value, &previous, &group)
	if err != nil || revision == nil {
		return r, err
	}
	c := &store.Change{Event: store.Event{
		Type: store.Put, Key: *key, Value: value, Revision: *revision, PreviousRevision: *previousRevision, CreateRevision: *create,
		Trace: *trace, Actor: *actor, Time: at.UTC(), Last: *last,
	}}
	if store.Op(*operation) == store.Delete {
		c.Type, c.Value = store.Removed, nil
	}
	if c.PreviousRevision > 0 && (q.Previous || c.Type == store.Removed) && q.After >= r.compacted {
		c.Previous = &store.Entry{Key: c.Key, Value: previous, Revision: c.PreviousRevision, CreateRevision: c.CreateRevision}
		if previous == nil {
			return r, missingBytes(*c.Previous)
		}
	}
	if r.change = c; group == nil {
		return r, fmt.Errorf("the atomic group of revision %d has no end", c.Revision)
	}
	r.group = *group
	return r, nil
}
