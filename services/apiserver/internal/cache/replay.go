package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	// pastReads is how many reads of the store's past (pieces of the log, states of old revisions) are under way at a time: half of
	// the store's connections, so that the present is never kept waiting.
	pastReads = 4
	// pastWait bounds the waiting for a place and the reading.
	pastWait = 30 * time.Second
	// refilled is how many revisions a new cache reads back, so that watches resume from memory.
	refilled = 4096
	// refillWait is how long that may keep it from being ready.
	refillWait = 5 * time.Second
)

// ErrBusy answers what would have to be read from the store's past where that is not possible in time. Retriable.
var ErrBusy = errors.New("the log cannot be read at present")

// past reads from the store's past. It fails with ErrBusy where no place becomes free or the store is away for too long.
func past[T any](ctx context.Context, c *Cache, read func(context.Context) (T, error)) (T, error) {
	var none T
	inner, cancel := context.WithTimeout(ctx, pastWait)
	defer cancel()
	start := time.Now()
	select {
	case c.past <- struct{}{}:
	case <-inner.Done():
		return none, busy(ctx, inner.Err())
	}
	defer func() { <-c.past }()
	v, err := read(inner)
	c.replays.seconds.Observe(time.Since(start).Seconds())
	if err != nil && (inner.Err() != nil || errors.Is(err, store.ErrUnavailable)) {
		return v, busy(ctx, err)
	}
	return v, err
}

func busy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrBusy, err)
}

// Resume starts a watcher at any revision that the log still knows. What is remembered no more is read from the log, a piece at
// a time, and handed to deliver, oldest first and whole groups at a time; the watcher gets what follows the last piece.
// Previous says that deliver needs what the changes replaced. It fails with *TooOldError, with ErrBusy, with the error of deliver,
// and with that of ctx. The caller waits first until the cache has reached the revision.
func (r *Resource) Resume(ctx context.Context, scope Scope, from int64, previous bool, deliver func([]*Event) error) (*Watcher, error) {
	wanted := from
	for {
		w, err := r.Watch(scope, from)
		var old *TooOldError
		if !errors.As(err, &old) {
			return w, err
		}
		if from == wanted {
			r.cache.replays.resumed.Inc()
		}
		query := store.ReplayQuery{Prefix: r.kind.Prefix(""), After: from, To: old.Oldest, Previous: previous || scope.Field != ""}
		piece, err := past(ctx, r.cache, func(ctx context.Context) (store.Replay, error) { return r.cache.source.Replay(ctx, query) })
		if errors.Is(err, store.ErrTooOld) {
			return nil, &TooOldError{Wanted: from, Oldest: piece.Compacted}
		}
		if err != nil {
			return nil, err
		}
		events := make([]*Event, 0, len(piece.Changes))
		for i := range piece.Changes {
			if e := r.past(&piece.Changes[i], piece.Groups[i]); scope.concerns(e) {
				events = append(events, e)
			}
		}
		r.cache.replays.events.Add(float64(len(events)))
		if len(events) > 0 {
			if err := deliver(events); err != nil {
				return nil, err
			}
		}
		from = piece.Through
	}
}

// past makes the event of a change that the log tells of.
func (r *Resource) past(c *store.Change, group int64) *Event {
	e := &Event{Type: Modified, Trace: c.Trace, Revision: c.Revision, Group: group}
	if p := c.Previous; p != nil {
		e.Previous = codec.NewItem(r.kind, p.Key, p.Value, p.Revision, p.CreateRevision)
	}
	switch {
	case c.Type == store.Removed:
		e.Type, e.Item = Deleted, e.Previous.At(c.Revision)
		return e
	case c.PreviousRevision == 0:
		e.Type = Added
	}
	e.Item = codec.NewItem(r.kind, c.Key, c.Value, c.Revision, c.CreateRevision)
	return e
}

// refill remembers the newest events from before the cache was loaded at a revision. It is a help only: what it fails to
// remember is read from the log when somebody asks for it.
func (c *Cache) refill(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, refillWait)
	defer cancel()
	since := max(revision-refilled, 0)
	query := store.ReplayQuery{After: since, To: revision, Previous: true}
	var changes []store.Change
	var groups []int64
	for query.After < revision {
		piece, err := c.source.Replay(ctx, query)
		if errors.Is(err, store.ErrTooOld) && piece.Compacted > query.After && piece.Compacted <= revision {
			query.After, since = piece.Compacted, piece.Compacted
			changes, groups = nil, nil
			continue
		}
		if err != nil || piece.Through <= query.After {
			slog.WarnContext(ctx, "cannot remember past events", "err", err)
			return
		}
		changes, groups = append(changes, piece.Changes...), append(groups, piece.Groups...)
		query.After = piece.Through
	}
	now := c.clock.Now()
	for len(changes) > 0 && now.Sub(changes[0].Time) > ringAge {
		since = changes[0].Revision
		changes, groups = changes[1:], groups[1:]
	}
	all := c.resources.Load()
	for _, r := range all.byKind {
		r.mu.Lock()
		r.ring.since = since
		r.mu.Unlock()
	}
	for i := range changes {
		if kind := c.table.KindOf(changes[i].Key); kind != nil {
			if r := all.byPrefix[kind.Prefix("")]; r != nil {
				r.remind(&changes[i], groups[i], now)
			}
		}
	}
}

// remind puts an event of the past into the ring, which has nothing yet that is younger. What is the present state is shared.
func (r *Resource) remind(c *store.Change, group int64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.past(c, group)
	if i := r.items[c.Key]; i != nil && i.Revision == c.Revision && e.Type != Deleted {
		e.Item = i
	}
	if e.at = c.Time; e.at.After(now) {
		e.at = now
	}
	r.ring.push(e)
}
