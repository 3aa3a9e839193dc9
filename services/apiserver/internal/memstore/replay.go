package memstore

import (
	"context"
	"strings"

	"howdah.dev/services/apiserver/internal/store"
)

// Replay implements store.Replayer.
func (s *Store) Replay(_ context.Context, q store.ReplayQuery) (store.Replay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := int64(len(s.log))
	r := store.Replay{Compacted: s.compacted, Through: q.After}
	switch {
	case q.After < s.compacted:
		return r, store.ErrTooOld
	case q.To > newest:
		return r, store.ErrFuture
	}
	previous := map[string]*store.Entry{}
	for _, e := range s.log[:q.After] {
		note(previous, e)
	}
	for i := q.After; i < newest && (i < q.To || r.Through < i); i++ {
		e := s.log[i]
		if strings.HasPrefix(e.Key, q.Prefix) {
			r.Changes = append(r.Changes, store.Change{Event: e, Previous: previous[e.Key]})
		}
		note(previous, e)
		if !e.Last {
			continue
		}
		r.Through = e.Revision
		for len(r.Groups) < len(r.Changes) {
			r.Groups = append(r.Groups, e.Revision)
		}
		if q.Limit > 0 && len(r.Changes) >= q.Limit {
			break
		}
	}
	return r, nil
}

func note(state map[string]*store.Entry, e store.Event) {
	delete(state, e.Key)
	if e.Type == store.Put {
		state[e.Key] = &store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision, CreateRevision: e.CreateRevision}
	}
}
