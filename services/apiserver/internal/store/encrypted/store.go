// Package encrypted is a store whose values are encrypted as an EncryptionConfiguration says. It stands in front of another store,
// which sees ciphertext only: in its current state, in its log and in its history.
//
// A value that cannot be opened is handed out as it is stored, which no decoder takes: requests for that object fail, the others
// do not. When it can be opened later (its plugin answers again, its key was configured), every tail ends with ErrTooOld, so that
// whoever follows reads everything anew.
package encrypted

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/kit/task"
	"howdah.dev/services/apiserver/internal/seal"
	"howdah.dev/services/apiserver/internal/store"
)

// Backend is a store that has to be run.
type Backend interface {
	store.Store
	store.Historian
	Run(ctx context.Context) error
}

// Config is what the store needs.
type Config struct {
	Backend Backend
	// Path of the EncryptionConfiguration.
	Path string
	// Reload makes changes of the file take effect while the store runs.
	Reload  bool
	Clock   clock.WithTicker
	Metrics *seal.Metrics
}

// Store is a store.Store over another.
type Store struct {
	cfg Config
	set atomic.Pointer[seal.Set]
	// read is the file's content that set was made of.
	read [32]byte

	mu         sync.Mutex
	unreadable *sample
	changed    chan struct{} // closed when tails have to begin anew
}

// sample is a value that could not be opened.
type sample struct {
	key   string
	value []byte
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Historian = (*Store)(nil)
)

// New reads the configuration; nothing runs before Run.
func New(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, changed: make(chan struct{})}
	set, sum, err := s.load()
	if err != nil {
		return nil, err
	}
	s.set.Store(set)
	s.read = sum
	cfg.Metrics.InForce(sum)
	return s, nil
}

// Run runs the store behind, keeps the plugins' state, and follows the file until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	return task.Run(ctx, s.cfg.Backend.Run, s.follow, s.retry)
}

// Healthy says what is wrong with the plugins, nil when nothing is.
func (s *Store) Healthy(ctx context.Context) error { return s.set.Load().Healthy(ctx) }

// Plugins are the checks of single plugins, by name. They are of the configuration as it is now.
func (s *Store) Plugins() map[string]func(context.Context) error {
	set, checks := s.set.Load(), map[string]func(context.Context) error{}
	for n := range set.Plugins() {
		checks[seal.PluginName(n)] = func(ctx context.Context) error { return set.PluginHealthy(ctx, n) }
	}
	return checks
}

// Stale reports whether the value that is stored under a key would be stored otherwise now.
func (s *Store) Stale(ctx context.Context, key string) (bool, error) {
	set := s.set.Load()
	if !set.Covers(key) {
		return false, nil
	}
	e, err := s.cfg.Backend.Get(ctx, key)
	if err != nil {
		return false, err
	}
	_, stale, err := set.Open(ctx, key, e.Value)
	return stale, err
}

// Open returns the value of a stored form, or the form itself where it cannot be opened.
func (s *Store) Open(ctx context.Context, key string, stored []byte) []byte {
	set := s.set.Load()
	if len(stored) == 0 || !set.Covers(key) && !seal.Sealed(stored) {
		return stored
	}
	plain, _, err := set.Open(ctx, key, stored)
	if err == nil {
		return plain
	}
	slog.WarnContext(ctx, "cannot open a stored value", "key", key, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable = &sample{key, stored}
	return unreadable(stored)
}

// unreadable makes sure that no decoder takes a value: one in plain that the configuration does not allow would be taken.
func unreadable(stored []byte) []byte {
	if seal.Sealed(stored) {
		return stored
	}
	return []byte("k8s:enc:refused")
}

// Write implements store.Writer.
func (s *Store) Write(ctx context.Context, w store.Write) store.Result {
	if err := s.seal(ctx, &w); err != nil {
		return store.Result{Err: err}
	}
	r := s.cfg.Backend.Write(ctx, w)
	s.openPrevious(ctx, &r)
	return r
}

// WriteAtomic implements store.Writer.
func (s *Store) WriteAtomic(ctx context.Context, ws []store.Write) ([]store.Result, error) {
	set, copied := s.set.Load(), false
	for i := range ws {
		if !set.Covers(ws[i].Key) {
			continue
		}
		if !copied { // the caller's slice is not ours to change
			ws, copied = append([]store.Write(nil), ws...), true
		}
		if err := s.seal(ctx, &ws[i]); err != nil {
			results := make([]store.Result, len(ws))
			for j := range results {
				results[j].Err = store.ErrAborted
			}
			results[i].Err = err
			return results, err
		}
	}
	results, err := s.cfg.Backend.WriteAtomic(ctx, ws)
	for i := range results {
		s.openPrevious(ctx, &results[i])
	}
	return results, err
}

// seal replaces the value of a write. A plugin that is away makes the write one to try again.
func (s *Store) seal(ctx context.Context, w *store.Write) error {
	if w.Op == store.Delete && len(w.Value) == 0 {
		return nil
	}
	value, err := s.set.Load().Seal(ctx, w.Key, w.Value)
	if err != nil {
		slog.WarnContext(ctx, "cannot seal a value", "key", w.Key, "err", err)
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	w.Value = value
	return nil
}

func (s *Store) openPrevious(ctx context.Context, r *store.Result) {
	r.Previous = s.openEntry(ctx, r.Previous)
}

// Get implements store.Reader.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	e, err := s.cfg.Backend.Get(ctx, key)
	if err == nil {
		e.Value = s.Open(ctx, key, e.Value)
	}
	return e, err
}

// List implements store.Reader.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.cfg.Backend.List(ctx, q)
	for i := range page.Entries {
		page.Entries[i].Value = s.Open(ctx, page.Entries[i].Key, page.Entries[i].Value)
	}
	return page, err
}

// Revision implements store.Reader.
func (s *Store) Revision(ctx context.Context) (int64, error) { return s.cfg.Backend.Revision(ctx) }

// Tail implements store.Tailer.
func (s *Store) Tail(ctx context.Context, from int64, deliver func([]store.Event) error) error {
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-changed:
			cancel()
		case <-stop:
		}
	}()
	err := s.cfg.Backend.Tail(inner, from, func(events []store.Event) error { return deliver(s.openEvents(ctx, events)) })
	if ctx.Err() == nil && inner.Err() != nil {
		return fmt.Errorf("%w: what could not be decrypted may be now", store.ErrTooOld)
	}
	return err
}

// openEvents returns the events with their values opened. The slice is shared by all tails: it is copied where one changes.
func (s *Store) openEvents(ctx context.Context, events []store.Event) []store.Event {
	set, copied := s.set.Load(), false
	for i := range events {
		if len(events[i].Value) == 0 || !seal.Sealed(events[i].Value) && !set.Covers(events[i].Key) {
			continue
		}
		if !copied {
			events, copied = append([]store.Event(nil), events...), true
		}
		events[i].Value = s.Open(ctx, events[i].Key, events[i].Value)
	}
	return events
}

// History implements store.Historian.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) (store.Versions, error) {
	v, err := s.cfg.Backend.History(ctx, q)
	v.Base = s.openEntry(ctx, v.Base)
	for i := range v.Changes {
		c := &v.Changes[i]
		c.Value = s.Open(ctx, c.Key, c.Value)
		c.Previous = s.openEntry(ctx, c.Previous)
	}
	return v, err
}

// Replay implements store.Replayer.
func (s *Store) Replay(ctx context.Context, q store.ReplayQuery) (store.Replay, error) {
	r, err := s.cfg.Backend.Replay(ctx, q)
	for i := range r.Changes {
		c := &r.Changes[i]
		c.Value = s.Open(ctx, c.Key, c.Value)
		c.Previous = s.openEntry(ctx, c.Previous)
	}
	return r, err
}

// RevisionAt implements store.Historian.
func (s *Store) RevisionAt(ctx context.Context, at time.Time) (int64, error) {
	return s.cfg.Backend.RevisionAt(ctx, at)
}

func (s *Store) openEntry(ctx context.Context, e *store.Entry) *store.Entry {
	if e == nil || len(e.Value) == 0 {
		return e
	}
	opened := *e
	opened.Value = s.Open(ctx, opened.Key, opened.Value)
	return &opened
}

// retryEvery is the time between attempts to open what could not be opened.
const retryEvery = 10 * time.Second

// retry makes the tails begin anew when a value that could not be opened can.
func (s *Store) retry(ctx context.Context) error {
	ticker := s.cfg.Clock.NewTicker(retryEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
			s.tryAgain(ctx)
		}
	}
}

func (s *Store) tryAgain(ctx context.Context) {
	s.mu.Lock()
	sample := s.unreadable
	s.mu.Unlock()
	if sample == nil {
		return
	}
	if _, _, err := s.set.Load().Open(ctx, sample.key, sample.value); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreadable = nil
	close(s.changed)
	s.changed = make(chan struct{})
}
