// Package expiry removes objects that nobody has written for a while: Events, which Kubernetes' apiserver lets go after --event-ttl.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	// sweepMost and sweepLeast bound the time between sweeps, which is a twentieth of the TTL.
	sweepMost  = 30 * time.Second
	sweepLeast = time.Second
	// writers is how many deletions are under way at a time: the store commits them together, and others between them.
	writers = 32
)

// Log tells when revisions were committed.
type Log interface {
	Revision(ctx context.Context) (int64, error)
	RevisionAt(ctx context.Context, at time.Time) (int64, error)
}

// Config is what a Sweeper needs.
type Config struct {
	// TTL is how long an object stays after it was last written.
	TTL time.Duration
	// Items returns all objects.
	Items func() []*codec.Item
	Log   Log
	Write func(ctx context.Context, w store.Write) store.Result
	Clock clock.WithTicker
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// Sweeper deletes what has not been written for longer than the TTL. When that was, the store's log knows: an object is old if its
// revision is not above the one that was the newest then. So nothing has to be stored with the objects, nothing is forgotten with a
// restart, and all apiservers may sweep: a deletion names the revision that it is meant for.
type Sweeper struct {
	cfg     Config
	marks   []mark
	expired prometheus.Counter
	failed  prometheus.Counter
}

// mark is a moment at which a revision was reached already.
type mark struct {
	at       time.Time
	revision int64
}

// New returns a Sweeper; nothing happens before Run.
func New(cfg Config) *Sweeper {
	s := &Sweeper{
		cfg:     cfg,
		expired: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_expired_events_total", Help: "Events that were deleted because their time was up."}),
		failed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_event_expiry_failures_total", Help: "Sweeps of old Events that failed; the next one goes on."}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.expired, s.failed)
	}
	return s
}

// Every is the time between two sweeps.
func (s *Sweeper) Every() time.Duration { return max(sweepLeast, min(s.cfg.TTL/20, sweepMost)) }

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := s.cfg.Clock.NewTicker(s.Every())
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.failed.Inc()
			slog.WarnContext(ctx, "cannot delete old events", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// Sweep deletes what is old now.
func (s *Sweeper) Sweep(ctx context.Context) error {
	limit, err := s.limit(ctx)
	if err != nil {
		return fmt.Errorf("find out which revisions are old: %w", err)
	}
	var old []*codec.Item
	for _, i := range s.cfg.Items() {
		if i.Revision <= limit {
			old = append(old, i)
		}
	}
	return s.remove(ctx, old)
}

// limit returns the newest revision that is old enough; 0 is none.
func (s *Sweeper) limit(ctx context.Context) (int64, error) {
	now := s.cfg.Clock.Now()
	newest, err := s.cfg.Log.Revision(ctx)
	if err != nil {
		return 0, err
	}
	s.marks = append(s.marks, mark{now, newest})
	// Two lines of evidence: what this process has seen itself, and the log, which knows of the time before it, as far as it is kept.
	limit := int64(0)
	for len(s.marks) > 0 && now.Sub(s.marks[0].at) >= s.cfg.TTL {
		limit = s.marks[0].revision
		if len(s.marks) == 1 || now.Sub(s.marks[1].at) < s.cfg.TTL {
			break
		}
		s.marks = s.marks[1:]
	}
	logged, err := s.cfg.Log.RevisionAt(ctx, now.Add(-s.cfg.TTL))
	switch {
	case errors.Is(err, store.ErrTooOld), errors.Is(err, store.ErrFuture):
		return limit, nil
	case err != nil:
		return 0, err
	}
	return max(limit, logged), nil
}

func (s *Sweeper) remove(ctx context.Context, old []*codec.Item) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		next   = make(chan *codec.Item)
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(writers, len(old)) {
		wg.Go(func() {
			for i := range next {
				if err := s.removeOne(ctx, i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	for _, i := range old {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return failed
}

// removeOne deletes an object unless somebody has written or deleted it meanwhile.
func (s *Sweeper) removeOne(ctx context.Context, i *codec.Item) error {
	r := s.cfg.Write(ctx, store.Write{
		Op: store.Delete, Key: i.Key, Revision: i.Revision, Actor: "system:apiserver", Origin: "delete\t\tevent-ttl",
	})
	var conflict *store.ConflictError
	switch {
	case r.Err == nil:
		s.expired.Inc()
	case errors.Is(r.Err, store.ErrNotFound), errors.As(r.Err, &conflict):
	default:
		return fmt.Errorf("delete %s: %w", i.Key, r.Err)
	}
	return nil
}
