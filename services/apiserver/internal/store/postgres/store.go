package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"howdah.dev/kit/task"
	"howdah.dev/services/apiserver/internal/store"
)

// Store is a store.Store. Its methods may be called from any goroutine, also before Run: they then wait for it.
type Store struct {
	cfg     Config
	dial    *dialer
	metrics *metrics
	queue   chan *request
	bytes   *semaphore.Weighted
	hub     *hub
	newest  *sharedRead
	scarce  atomic.Int32 // how much of the quota is used: a scarcity
	buffer  []byte       // of the arguments of a commit; the commit loop's

	pool    *pgxpool.Pool
	started chan struct{} // closed when pool is there
	ended   chan struct{} // closed when Run has returned
	running atomic.Bool
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Historian = (*Store)(nil)
)

func newStore(cfg Config, pool *pgxpool.Config, m *metrics) *Store {
	s := &Store{
		cfg:     cfg,
		metrics: m,
		queue:   make(chan *request, cfg.QueueLength),
		bytes:   semaphore.NewWeighted(cfg.QueueBytes),
		hub:     newHub(),
		started: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	s.dial = newDialer(pool, cfg)
	s.newest = newSharedRead(s.readRevision)
	return s
}

// Run connects and works until ctx ends; then calls that wait fail with store.ErrUnavailable. It can be called once.
func (s *Store) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("store: Run was called before")
	}
	defer close(s.ended)
	pool, err := s.dial.pool(ctx, s.cfg.ReadConnections)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer pool.Close()
	s.pool = pool
	close(s.started)
	return task.Run(ctx, s.commitLoop, s.listen, s.maintain, s.watchRoom)
}

// connected waits until the pool may be used.
func (s *Store) connected(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-s.ended:
		return fmt.Errorf("%w: it has been stopped", store.ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}
