package memstore

import (
	"context"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

var _ store.Historian = (*Store)(nil)

// History implements store.Historian.
func (s *Store) History(_ context.Context, q store.HistoryQuery) (store.Versions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := store.Versions{Revision: int64(len(s.log)), Compacted: s.compacted}
	if int(s.compacted) < len(s.log) {
		v.Oldest = s.log[s.compacted].Time
	}
	var last *store.Entry
	var all []store.Change
	for i, e := range s.log {
		if e.Revision == s.compacted+1 {
			v.Base = last
		}
		if e.Key != q.Key {
			continue
		}
		if e.Revision > s.compacted && (q.Before == 0 || e.Revision < q.Before) && !e.Time.Before(q.Since) {
			all = append(all, store.Change{Event: e, Origin: s.origins[i], Previous: last})
		}
		last = nil
		if e.Type == store.Put {
			last = &store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision, CreateRevision: e.CreateRevision}
		}
	}
	if s.compacted == int64(len(s.log)) {
		v.Base = last
	}
	for i := len(all) - 1; i >= 0; i-- {
		if v.More = q.Limit > 0 && len(v.Changes) == q.Limit; v.More {
			break
		}
		v.Changes = append(v.Changes, all[i])
	}
	return v, nil
}

// RevisionAt implements store.Historian.
func (s *Store) RevisionAt(_ context.Context, at time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(time.Now()) {
		return 0, store.ErrFuture
	}
	revision := int64(0)
	for _, e := range s.log {
		if e.Time.After(at) {
			break
		}
		revision = e.Revision
	}
	if revision <= s.compacted && s.compacted > 0 {
		return 0, store.ErrTooOld
	}
	return revision, nil
}
