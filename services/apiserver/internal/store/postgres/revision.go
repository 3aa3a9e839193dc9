package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"howdah.dev/kit/database"
	"howdah.dev/services/apiserver/internal/store"
)

// confirmTimeout bounds a statement that is to be confirmed (database.Confirmed): one that takes longer is tried over new connections, which find
// another primary if there is one.
const confirmTimeout = 3 * time.Second

const (
	confirmSQL  = "SELECT " + database.Confirmed
	revisionSQL = "SELECT revision, " + database.Confirmed + " FROM howdah.counter"
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
	var confirmed bool
	err := s.retryRead(ctx, func(ctx context.Context) error {
		return s.confirmedRow(ctx, revisionSQL, nil, &revision, &confirmed)
	})
	if err == nil {
		s.dial.saw(revision)
	}
	return revision, err
}

// confirmedRow reads the row of a statement that is confirmed.
func (s *Store) confirmedRow(ctx context.Context, sql string, args []any, into ...any) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.confirmed(ctx, conn, sql, args, into...)
}

// confirmed is confirmedRow over a connection that is at hand. Where the server does not confirm in time, all connections are made anew.
func (s *Store) confirmed(ctx context.Context, conn *pgxpool.Conn, sql string, args []any, into ...any) error {
	attempt, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := conn.QueryRow(attempt, sql, args...).Scan(into...)
	if err == nil {
		err = database.Replicated(conn.Conn().PgConn())
	}
	if errors.Is(err, database.ErrUnreplicated) || attempt.Err() != nil && ctx.Err() == nil {
		s.pool.Reset()
	}
	return err
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
