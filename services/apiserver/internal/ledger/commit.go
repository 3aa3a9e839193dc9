package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/internal/quota"
)

// state is a quota as of a revision.
type state struct {
	key      string
	revision int64
	quota    *corev1.ResourceQuota // shared: never changed
	// used is status.used with what the group adds; nil while it adds nothing.
	used corev1.ResourceList
}

// commit brings every entry to its end: committed, refused or failed. The caller holds the accounts' turns.
func (l *Ledger) commit(ctx context.Context, accounts []*account, group []*entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	defer abandon(group)
	l.land(ctx, accounts, group)
}

// abandon ends the entries that a panic leaves behind, so that their callers do not wait for ever.
func abandon(group []*entry) {
	for _, e := range group {
		if !e.finished() {
			e.finish(nil, fmt.Errorf("the commit of a group with others broke off: %w", store.ErrUnknownOutcome))
		}
	}
}

// land commits what fits, and refuses what does not fit when all else has landed or failed: what fails makes no use of its room.
func (l *Ledger) land(ctx context.Context, accounts []*account, group []*entry) {
	fresh := false
	for len(group) > 0 {
		states, err := l.states(accounts)
		if err != nil {
			failAll(group, err)
			return
		}
		charged, refused := charge(states, group)
		if len(refused) > 0 && !fresh {
			// Another apiserver may have committed what makes it right.
			if fresh = true; l.cfg.Cache.Fresh(ctx) == nil {
				continue
			}
		}
		if len(charged) == 0 {
			for e, why := range refused {
				e.finish(nil, why)
			}
			return
		}
		again := l.attempt(ctx, accounts, states, charged)
		group = slices.DeleteFunc(slices.Clone(group), func(e *entry) bool { return refused[e] == nil && !slices.Contains(again, e) })
	}
}

// attempt commits the entries with the states that they were charged to, and returns those that have to be charged anew.
func (l *Ledger) attempt(ctx context.Context, accounts []*account, states []*state, group []*entry) (again []*entry) {
	results, err := l.write(ctx, states, group)
	if err == nil {
		l.groups.Observe(float64(len(group)))
		l.remember(accounts, states, results)
		succeed(group, results)
		return nil
	}
	if len(group) > 1 && errors.Is(err, store.ErrInvalid) {
		// One spoils the group for all, as one that writes the quota itself: each on its own, it fails alone or not at all.
		for _, e := range group {
			l.land(ctx, accounts, []*entry{e})
		}
		return nil
	}
	group, stale := settle(group, results, err)
	if len(group) == 0 || stale == nil {
		return group // those that failed for their own sake are out
	}
	if ctx.Err() != nil {
		failAll(group, fmt.Errorf("the quotas keep moving on: %w", store.ErrUnavailable))
		return nil
	}
	l.retries.Inc()
	err = l.catchUp(ctx, accounts, stale)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the quotas keep moving on: %w (%w)", store.ErrUnavailable, err)
	}
	if err != nil {
		failAll(group, err)
		return nil
	}
	return group
}

// states returns the newest quotas of the accounts that are known.
func (l *Ledger) states(accounts []*account) ([]*state, error) {
	var out []*state
	for _, a := range accounts {
		seen := map[string]bool{}
		for _, item := range l.cfg.Cache.For(l.cfg.Kind).List(cache.Query{Namespace: a.namespace}).Items {
			seen[item.Key] = true
			if own := a.known[item.Key]; own != nil && own.revision > item.Revision {
				out = append(out, &state{key: own.key, revision: own.revision, quota: own.quota})
				continue
			}
			delete(a.known, item.Key)
			obj, err := item.Object()
			if err != nil {
				return nil, err
			}
			q, ok := obj.(*corev1.ResourceQuota)
			if !ok {
				return nil, fmt.Errorf("quota %s is a %T", item.Key, obj)
			}
			out = append(out, &state{key: item.Key, revision: item.Revision, quota: q})
		}
		for key := range a.known {
			if !seen[key] { // it is gone
				delete(a.known, key)
			}
		}
	}
	return out, nil
}

// charge adds what the entries consume to the states, and sorts out those that a quota refuses.
func charge(states []*state, group []*entry) (charged []*entry, refused map[*entry]error) {
	refused = map[*entry]error{}
	for _, e := range group {
		if err := chargeOne(states, e); err != nil {
			refused[e] = err
			continue
		}
		charged = append(charged, e)
	}
	return charged, refused
}

func chargeOne(states []*state, e *entry) error {
	added := make([]corev1.ResourceList, len(states))
	for _, u := range e.usages {
		for n, s := range states {
			if s.quota.Namespace != u.Namespace || e.replaces(s.key) {
				continue
			}
			now := *s.quota
			now.Status.Used = s.total(added[n])
			list, err := u.Charge(&now)
			if err != nil {
				return &admission.RefusedError{Usage: u, Err: err}
			}
			if len(list) > 0 {
				added[n] = quota.Add(added[n], list)
			}
		}
	}
	for n, s := range states {
		if len(added[n]) > 0 {
			s.used = s.total(added[n])
		}
	}
	return nil
}

// total is what is used when the group so far and more are counted.
func (s *state) total(more corev1.ResourceList) corev1.ResourceList {
	used := s.used
	if used == nil {
		used = s.quota.Status.Used
	}
	if len(more) == 0 {
		return used
	}
	return quota.Add(used, more)
}

// replaces reports whether the entry writes the quota itself: its controller then counts anew.
func (e *entry) replaces(key string) bool {
	for _, w := range e.writes {
		if w.Key == key {
			return true
		}
	}
	return false
}

// write commits the entries and then the quotas that they change.
func (l *Ledger) write(ctx context.Context, states []*state, group []*entry) ([]store.Result, error) {
	var writes []store.Write
	for _, e := range group {
		writes = append(writes, e.writes...)
	}
	first := group[0].writes[0]
	for _, s := range states {
		if s.used == nil {
			continue
		}
		changed := s.quota.DeepCopy()
		changed.Status.Used = s.used
		if l.cfg.Track != nil && !chargesAgain(s.quota, changed, l.cfg.Manager, time.Now()) {
			l.cfg.Track(s.quota, changed)
		}
		value, err := codec.Encode(ctx, l.cfg.Kind, changed)
		if err != nil {
			return nil, err
		}
		s.quota = changed
		writes = append(writes, store.Write{Op: store.Update, Key: s.key, Value: value, Revision: s.revision, Actor: first.Actor, Trace: first.Trace})
	}
	if len(writes) == 1 {
		result := l.cfg.Store.Write(ctx, writes[0])
		return []store.Result{result}, result.Err
	}
	return l.cfg.Store.WriteAtomic(ctx, writes)
}

// remember keeps the quotas' new states until the cache has seen them.
func (l *Ledger) remember(accounts []*account, states []*state, results []store.Result) {
	changed := 0
	for _, s := range states {
		if s.used != nil {
			changed++
		}
	}
	next := len(results) - changed
	for _, s := range states {
		if s.used == nil {
			continue
		}
		s.revision, s.used = results[next].Revision, nil
		next++
		for _, a := range accounts {
			if a.namespace == s.quota.Namespace {
				a.known[s.key] = s
			}
		}
	}
}

func succeed(group []*entry, results []store.Result) {
	at := 0
	for _, e := range group {
		e.finish(results[at:at+len(e.writes)], nil)
		at += len(e.writes)
	}
}

// settle ends the entries that failed for their own sake, and returns the others. stale is the failure of a quota's own write.
func settle(group []*entry, results []store.Result, err error) (rest []*entry, stale error) {
	at, own := 0, false
	failed := func(r store.Result) bool { return r.Err != nil && !errors.Is(r.Err, store.ErrAborted) }
	for _, e := range group {
		var cause error
		var part []store.Result
		if len(results) >= at+len(e.writes) {
			part = results[at : at+len(e.writes)]
			for _, r := range part {
				if cause == nil && failed(r) {
					cause = r.Err
				}
			}
		}
		at += len(e.writes)
		if cause != nil {
			own = true
			e.finish(part, cause)
			continue
		}
		rest = append(rest, e)
	}
	for ; at < len(results); at++ {
		var conflict *store.ConflictError
		if cause := results[at].Err; errors.As(cause, &conflict) || errors.Is(cause, store.ErrNotFound) {
			stale = cause
		}
	}
	if !own && stale == nil { // the store's failure, and so everybody's
		failAll(rest, err)
		return nil, nil
	}
	return rest, stale
}

func failAll(group []*entry, err error) {
	for _, e := range group {
		e.finish(nil, err)
	}
}

// catchUp waits until the cache knows the quota that a commit fell over.
func (l *Ledger) catchUp(ctx context.Context, accounts []*account, cause error) error {
	for _, a := range accounts {
		clear(a.known)
	}
	var conflict *store.ConflictError
	if errors.As(cause, &conflict) {
		return l.cfg.Cache.WaitFor(ctx, conflict.Current)
	}
	return l.cfg.Cache.Fresh(ctx)
}
