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
	// tailChunk is how many changes a tail reads at once; a longer atomic group makes it read more.
	tailChunk = 512
	// tailTimeout bounds the reading of a chunk.
	tailTimeout = 10 * time.Second
)

// One statement, hence one snapshot: when compacted <= $1 in it, every change after $1 is in it too.
const tailSQL = `
SELECT n.revision, n.compacted, c.*
  FROM howdah.counter n LEFT JOIN LATERAL (
       SELECT revision, previous_revision, create_revision, time, operation, last, key,
              coalesce(trace_context, ''), coalesce(actor, ''), value
         FROM howdah.change WHERE revision > $1 ORDER BY revision LIMIT $2) c ON true`

// Tail implements store.Tailer.
func (s *Store) Tail(ctx context.Context, from int64, deliver func([]store.Event) error) error {
	if err := s.connected(ctx); err != nil {
		return err
	}
	sub := s.hub.subscribe()
	defer s.hub.unsubscribe(sub)
	t := &tail{store: s, last: from, deliver: deliver}
	poll := time.NewTicker(s.cfg.PollInterval)
	defer poll.Stop()
	for {
		if err := t.catchUp(ctx); err != nil {
			return err
		}
		for caughtUp := true; caughtUp; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.ended:
				return fmt.Errorf("%w: it has been stopped", store.ErrUnavailable)
			case <-poll.C:
				caughtUp = false
			case <-sub.signal:
				offers, woken := s.hub.take(sub)
				contiguous, err := t.apply(offers)
				if err != nil {
					return err
				}
				caughtUp = contiguous && !woken
			}
		}
	}
}

// tail is the position of one call of Tail.
type tail struct {
	store   *Store
	last    int64
	deliver func([]store.Event) error
}

func (t *tail) pass(events []store.Event) error {
	if err := t.deliver(events); err != nil {
		return err
	}
	newest := events[len(events)-1]
	t.last = newest.Revision
	t.store.metrics.delivered(newest, len(events))
	return nil
}

// apply delivers the offered batches that continue where the tail stands. It answers false when one does not: then the
// log has to be read.
func (t *tail) apply(offers [][]store.Event) (contiguous bool, err error) {
	for _, events := range offers {
		// A read may have delivered a part: a group whose end we had not asked for is read up to its end, never further.
		for len(events) > 0 && events[0].Revision <= t.last {
			events = events[1:]
		}
		if len(events) == 0 {
			continue
		}
		if events[0].Revision != t.last+1 {
			return false, nil
		}
		if err := t.pass(events); err != nil {
			return false, err
		}
	}
	return true, nil
}

// catchUp reads the log until nothing is left. It waits while the database is away.
func (t *tail) catchUp(ctx context.Context) error {
	var retry backoff
	limit := tailChunk
	for {
		events, err := t.store.readChanges(ctx, t.last, limit)
		switch {
		case errors.Is(err, store.ErrTooOld):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			t.store.cfg.Logger.WarnContext(ctx, "cannot read the change log", "err", err)
			select {
			case <-t.store.ended:
				return fmt.Errorf("%w: it has been stopped", store.ErrUnavailable)
			default:
			}
			if err := retry.wait(ctx); err != nil {
				return err
			}
			continue
		}
		retry.reset()
		whole := wholeGroups(events)
		if len(whole) == 0 && len(events) > 0 {
			limit *= 2 // the first group is longer than that
			continue
		}
		if len(whole) > 0 {
			if err := t.pass(whole); err != nil {
				return err
			}
		}
		if len(events) < limit {
			return nil
		}
		limit = tailChunk
	}
}

// wholeGroups cuts an unfinished group off the end.
func wholeGroups(events []store.Event) []store.Event {
	for n := len(events); n > 0; n-- {
		if events[n-1].Last {
			return events[:n]
		}
	}
	return nil
}

// readChanges answers up to limit events after last, or ErrTooOld when the log does not hold all of them.
func (s *Store) readChanges(ctx context.Context, last int64, limit int) ([]store.Event, error) {
	// Not longer: on a network that swallows everything, the deadline is what makes us try another connection.
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, tailSQL, last, limit)
	if err != nil {
		return nil, err
	}
	var newest, compacted int64
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Event, error) {
		return scanEvent(row, &newest, &compacted)
	})
	if err != nil {
		return nil, err
	}
	if len(events) == 1 && events[0].Revision == 0 {
		events = nil // the row of the outer join that matched nothing
	}
	switch {
	case last < compacted:
		return nil, fmt.Errorf("%w: %d asked for, the log begins after %d", store.ErrTooOld, last, compacted)
	case last > newest && s.dial.seen.Load() > newest:
		// Can only be when the database was put back under a living connection; the next one will find out and jump.
		s.pool.Reset()
		return nil, fmt.Errorf("%w: the database is at %d, %d had been seen", store.ErrTooOld, newest, last)
	case last > newest:
		return nil, fmt.Errorf("%w: the database is at %d only, not at %d", store.ErrTooOld, newest, last)
	}
	for i, e := range events {
		if e.Revision != last+int64(i)+1 {
			s.cfg.Logger.ErrorContext(ctx, "the change log has a gap", "after", last+int64(i), "next", e.Revision)
			return nil, fmt.Errorf("%w: the log has a gap after %d", store.ErrTooOld, last+int64(i))
		}
	}
	s.dial.saw(newest)
	return events, nil
}

func scanEvent(row pgx.CollectableRow, newest, compacted *int64) (store.Event, error) {
	var e store.Event
	// Pointers, because all is NULL in the one row of an empty log.
	var revision, previous, create *int64
	var at *time.Time
	var operation *int16
	var last *bool
	var key, trace, actor *string
	var value []byte
	err := row.Scan(newest, compacted, &revision, &previous, &create, &at, &operation, &last, &key, &trace, &actor, &value)
	if err != nil || revision == nil {
		return e, err
	}
	e = store.Event{
		Type: store.Put, Key: *key, Value: value, Revision: *revision, PreviousRevision: *previous, CreateRevision: *create,
		Trace: *trace, Actor: *actor, Time: at.UTC(), Last: *last,
	}
	if store.Op(*operation) == store.Delete {
		e.Type, e.Value = store.Removed, nil
	}
	return e, nil
}
