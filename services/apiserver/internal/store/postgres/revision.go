package postgres

import (
	"context"
	"fmt"
	"sync"

	"howdah.dev/services/apiserver/internal/store"
)

// Revision implements store.Reader.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	if err := s.connected(ctx); err != nil {
		return 0, err
	}
	return s.newest.get(ctx)
}

func (s *Store) readRevision(ctx context.Context) (int64, error) {
	var revision int64
	err := s.retryRead(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "SELECT revision FROM howdah.counter").Scan(&revision)
	})
	if err == nil {
		s.dial.saw(revision)
	}
	return revision, err
}

// sharedRead lets concurrent callers share a read, each of which must begin after the caller asked: who comes while a read is
// under way waits for the next one, together with all others who do.
type sharedRead struct {
	read func(context.Context) (int64, error)
	mu   sync.Mutex
	// running is whether a read is under way; next is the one that follows it, nil while nobody waits for it.
	running bool
	next    *round
}

// round is one read and those who wait for it.
type round struct {
	done  chan struct{}
	value int64
	err   error
}

func newSharedRead(read func(context.Context) (int64, error)) *sharedRead {
	return &sharedRead{read: read}
}

func (r *sharedRead) get(ctx context.Context) (int64, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	mine := r.next
	if !r.running {
		r.running = true
		// It outlives the caller who happened to start it; ReadPatience bounds it.
		go r.run(context.WithoutCancel(ctx))
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// run reads round after round until nobody waits.
func (r *sharedRead) run(ctx context.Context) {
	for {
		r.mu.Lock()
		current := r.next
		r.next = nil
		if current == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		current.value, current.err = r.read(ctx)
		close(current.done)
	}
}
