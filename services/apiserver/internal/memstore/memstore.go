// Package memstore is a store.Store in memory, for tests that need no database. It keeps the whole log.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

// Store keeps everything in memory.
type Store struct {
	mu        sync.Mutex
	entries   map[string]store.Entry
	log       []store.Event // log[i] has revision i+1
	origins   []string      // of each event of the log
	compacted int64
	changed   chan struct{}
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{entries: map[string]store.Entry{}, changed: make(chan struct{})}
}

// Write implements store.Writer.
func (s *Store) Write(ctx context.Context, w store.Write) store.Result {
	results, err := s.WriteAtomic(ctx, []store.Write{w})
	if err != nil && results[0].Err == nil {
		results[0].Err = err
	}
	return results[0]
}

// WriteAtomic implements store.Writer.
func (s *Store) WriteAtomic(_ context.Context, ws []store.Write) ([]store.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]store.Result, len(ws))
	if err := distinct(ws); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results, err
	}
	var failed error
	for i, w := range ws {
		if err := s.check(w); err != nil {
			results[i].Err = err
			if failed == nil {
				failed = err
			}
		}
	}
	if failed != nil {
		for i := range results {
			if results[i].Err == nil {
				results[i].Err = store.ErrAborted
			}
		}
		return results, failed
	}
	for i, w := range ws {
		results[i] = s.put(w, i == len(ws)-1)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return results, nil
}

// distinct refuses a group that names a key twice, and keys that are empty.
func distinct(ws []store.Write) error {
	keys := make(map[string]bool, len(ws))
	for _, w := range ws {
		if w.Key == "" || keys[w.Key] {
			return fmt.Errorf("%w: a key is empty or named twice", store.ErrInvalid)
		}
		keys[w.Key] = true
	}
	return nil
}

func (s *Store) check(w store.Write) error {
	e, ok := s.entries[w.Key]
	switch {
	case w.Op == store.Create && ok:
		return store.ErrExists
	case w.Op != store.Create && !ok:
		return store.ErrNotFound
	case w.Op != store.Create && w.Revision != 0 && w.Revision != e.Revision:
		return &store.ConflictError{Current: e.Revision}
	}
	return nil
}

// put makes a write that was checked.
func (s *Store) put(w store.Write, last bool) store.Result {
	if w.Op != store.Delete || len(w.Value) == 0 {
		return s.append(w, last)
	}
	told := w
	told.Op = store.Update
	w.Value = nil
	previous := s.append(told, false).Previous
	result := s.append(w, last)
	result.Previous = previous
	return result
}

// append notes one event of a write.
func (s *Store) append(w store.Write, last bool) store.Result {
	revision := int64(len(s.log)) + 1
	event := store.Event{Type: store.Put, Key: w.Key, Value: w.Value, Revision: revision, CreateRevision: revision,
		Trace: w.Trace, Actor: w.Actor, Time: time.Now(), Last: last}
	result := store.Result{Revision: revision, Time: event.Time}
	if old, ok := s.entries[w.Key]; ok {
		event.PreviousRevision, event.CreateRevision = old.Revision, old.CreateRevision
		result.Previous = &old
	}
	if w.Op == store.Delete {
		event.Type, event.Value = store.Removed, nil
		delete(s.entries, w.Key)
	} else {
		s.entries[w.Key] = store.Entry{Key: w.Key, Value: w.Value, Revision: revision, CreateRevision: event.CreateRevision}
	}
	s.log, s.origins = append(s.log, event), append(s.origins, w.Origin)
	return result
}

// Get implements store.Reader.
func (s *Store) Get(_ context.Context, key string) (store.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok {
		return e, store.ErrNotFound
	}
	return e, nil
}

// List implements store.Reader.
func (s *Store) List(_ context.Context, q store.Query) (store.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := int64(len(s.log))
	if q.Revision == 0 {
		q.Revision = now
	}
	if q.Revision < s.compacted {
		return store.Page{}, store.ErrTooOld
	}
	if q.Revision > now {
		return store.Page{}, store.ErrFuture
	}
	state := map[string]store.Entry{}
	for _, e := range s.log[:q.Revision] {
		if e.Type == store.Removed {
			delete(state, e.Key)
			continue
		}
		state[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision, CreateRevision: e.CreateRevision}
	}
	page := store.Page{Revision: q.Revision}
	for key, e := range state {
		if strings.HasPrefix(key, q.Prefix) && key > q.After {
			page.Entries = append(page.Entries, e)
		}
	}
	sort.Slice(page.Entries, func(i, j int) bool { return page.Entries[i].Key < page.Entries[j].Key })
	if q.Limit > 0 && len(page.Entries) > q.Limit {
		page.Entries = page.Entries[:q.Limit]
		page.Next = page.Entries[q.Limit-1].Key
	}
	return page, nil
}

// Revision implements store.Reader.
func (s *Store) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.log)), nil
}

// Compact makes everything before the revision too old.
func (s *Store) Compact(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = revision
}

// Tail implements store.Tailer.
func (s *Store) Tail(ctx context.Context, from int64, deliver func([]store.Event) error) error {
	for {
		s.mu.Lock()
		if from > int64(len(s.log)) {
			s.mu.Unlock()
			return errors.New("tail from the future")
		}
		if from < s.compacted {
			s.mu.Unlock()
			return store.ErrTooOld
		}
		events := s.log[from:len(s.log):len(s.log)]
		changed := s.changed
		s.mu.Unlock()
		if len(events) > 0 {
			if err := deliver(events); err != nil {
				return err
			}
			from = events[len(events)-1].Revision
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
