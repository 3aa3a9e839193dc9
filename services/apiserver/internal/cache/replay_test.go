package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/store"
)

// forget makes the ring forget all events.
func (w *world) forget() {
	w.pods.mu.Lock()
	defer w.pods.mu.Unlock()
	w.pods.ring.reset(w.pods.revision())
}

// story is what a watch is told, from the log and then by its watcher.
type story struct {
	text   string
	pieces int
}

func (s *story) add(events []*Event) {
	for _, e := range events {
		s.text += fmt.Sprintf("%s %s@%d ", e.Type, e.Item.Name, e.Revision)
	}
	s.pieces++
}

func (w *world) resume(t *testing.T, scope Scope, from int64) (*Watcher, string) {
	t.Helper()
	var s story
	watcher, err := w.pods.Resume(t.Context(), scope, from, true, func(events []*Event) error { s.add(events); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return watcher, s.text
}

func TestResumeFromTheLog(t *testing.T) {
	w := setup(t)
	w.put("a", "", "")
	w.put("b", "n1", "")
	w.put("a", "n1", "x")
	w.put("a", "n2", "")
	w.remove("b")
	w.forget()
	for name, c := range map[string]struct {
		scope Scope
		from  int64
		want  string
	}{
		"all":    {Scope{}, 0, "ADDED a@1 ADDED b@2 MODIFIED a@3 MODIFIED a@4 DELETED b@5 "},
		"part":   {Scope{}, 3, "MODIFIED a@4 DELETED b@5 "},
		"name":   {Scope{Name: "a"}, 1, "MODIFIED a@3 MODIFIED a@4 "},
		"node":   {Scope{Field: "spec.nodeName", Value: "n1"}, 0, "ADDED b@2 MODIFIED a@3 MODIFIED a@4 DELETED b@5 "},
		"newest": {Scope{}, 5, ""},
	} {
		watcher, got := w.resume(t, c.scope, c.from)
		if got != c.want {
			t.Errorf("%s: %q, wanted %q", name, got, c.want)
		}
		watcher.Stop()
	}
	watcher, _ := w.resume(t, Scope{}, 0)
	w.put("c", "", "")
	if got := events(t, watcher); got != "ADDED c@6 " {
		t.Errorf("after the log: %q", got)
	}
	var replaced []string
	w.forget()
	_, err := w.pods.Resume(t.Context(), Scope{}, 2, true, func(events []*Event) error {
		for _, e := range events {
			if e.Previous != nil {
				replaced = append(replaced, fmt.Sprintf("%s@%d", e.Previous.Name, e.Previous.Revision))
			}
		}
		return nil
	})
	if got := fmt.Sprint(replaced); err != nil || got != "[a@1 a@3 b@2]" {
		t.Errorf("replaced: %s, %v", got, err)
	}
}

func TestResumeEnds(t *testing.T) {
	w := setup(t)
	for i := range 5 {
		w.put("a", "", fmt.Sprint(i))
	}
	w.forget()
	broken := errors.New("the client has gone")
	if _, err := w.pods.Resume(t.Context(), Scope{}, 1, false, func([]*Event) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("with a client that goes: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	full := make(chan struct{}, 1)
	full <- struct{}{}
	w.cache.past, full = full, w.cache.past // all places are taken
	if _, err := w.pods.Resume(ended, Scope{}, 1, false, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch that ends while it waits: %v", err)
	}
	w.cache.past = full
	w.store.Compact(3)
	var old *TooOldError
	if _, err := w.pods.Resume(t.Context(), Scope{}, 2, false, nil); !errors.As(err, &old) || old.Wanted != 2 || old.Oldest != 3 {
		t.Errorf("from a compacted revision: %v", err)
	}
	if _, got := w.resume(t, Scope{}, 3); got != "MODIFIED a@4 MODIFIED a@5 " {
		t.Errorf("from the oldest revision: %q", got)
	}
	if n := len(w.cache.past); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// onePiece answers one change at a time, and lets a test do something before each.
type onePiece struct {
	Source
	before func(q store.ReplayQuery)
}

func (s *onePiece) Replay(ctx context.Context, q store.ReplayQuery) (store.Replay, error) {
	if s.before != nil {
		s.before(q)
	}
	q.Limit = 1
	return s.Source.Replay(ctx, q)
}

func TestCompactionDuringAReplay(t *testing.T) {
	var w *world
	w = setupThrough(t, func(s Source) Source {
		return &onePiece{s, func(q store.ReplayQuery) {
			if q.After == 4 {
				w.store.Compact(6)
			}
		}}
	})
	for i := range 9 {
		w.put("a", "", fmt.Sprint(i))
	}
	w.forget()
	var s story
	_, err := w.pods.Resume(t.Context(), Scope{}, 1, false, func(events []*Event) error { s.add(events); return nil })
	if !IsTooOld(err) || s.text != "MODIFIED a@2 MODIFIED a@3 MODIFIED a@4 " {
		t.Errorf("%q, then %v", s.text, err)
	}
}

// TestResumeWhileWriting resumes from anywhere while the log grows and the ring forgets: nothing may be missing or repeated.
func TestResumeWhileWriting(t *testing.T) {
	w := setupThrough(t, func(s Source) Source { return &onePiece{Source: s} })
	const writes = 400
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for from := int64(0); from < writes; {
				last := from
				check := func(events []*Event) error {
					for _, e := range events {
						if e.Revision != last+1 {
							t.Errorf("%d comes after %d", e.Revision, last)
						}
						last = e.Revision
					}
					return nil
				}
				watcher, err := w.pods.Resume(t.Context(), Scope{}, from, false, check)
				if err != nil {
					t.Error(err)
					return
				}
				for stop := last + rand.Int64N(20); last <= stop && last < writes; {
					<-watcher.Signal()
					events, err := watcher.Take()
					if _ = check(events); err != nil {
						t.Error(err)
						return
					}
				}
				watcher.Stop()
				from = max(from+1, last-rand.Int64N(30)) // some of it again
				if last == writes {
					from = writes
				}
			}
		})
	}
	for i := range writes {
		w.put("a", "", fmt.Sprint(i))
		if i%7 == 0 {
			w.forget()
		}
	}
	wg.Wait()
}

func TestANewCacheRemembersThePast(t *testing.T) {
	w := setup(t)
	w.put("a", "", "1")
	w.put("a", "", "2")
	w.remove("a")
	again := New(w.store, w.cache.table, clock.RealClock{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- again.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-again.Ready()
	watcher, err := again.For(w.kind).Watch(Scope{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := events(t, watcher); got != "ADDED a@1 MODIFIED a@2 DELETED a@3 " {
		t.Errorf("%q", got)
	}
}

func TestAWatchOfTheFarPastIsNotRemembered(t *testing.T) {
	w := setup(t)
	for i := range refilled + 10 {
		w.commit(store.Write{Op: store.Create, Key: w.kind.Key("ns", fmt.Sprint(i)), Value: []byte("x")})
	}
	again := New(w.store, w.cache.table, clock.RealClock{}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- again.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-again.Ready()
	if _, err := again.For(w.kind).Watch(Scope{}, 9); !IsTooOld(err) {
		t.Errorf("from memory: %v", err)
	}
	count := 0
	watcher, err := again.For(w.kind).Resume(ctx, Scope{}, 5, false, func(events []*Event) error { count += len(events); return nil })
	if err != nil {
		t.Fatal(err)
	}
	rest, err := watcher.Take()
	if count += len(rest); err != nil || count != refilled+5 {
		t.Errorf("%d events, %v", count, err)
	}
}
