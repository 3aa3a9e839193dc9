package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// TestALostCommitIsCountedIfItHappened loses the connection while a commit is under way, at a server that hears nothing of it until
// it has made the next commit in vain; then its caller tries again, and others go on.
func TestALostCommitIsCountedIfItHappened(t *testing.T) {
	t.Parallel()
	shapes := map[string]func() *entry{
		"one":            func() *entry { return creation("ns/a") },
		"several":        func() *entry { return together(creation("ns/a"), creation("ns/b")) },
		"two namespaces": func() *entry { return together(creation("ns/a"), creation("other/a")) },
	}
	for name, shape := range shapes {
		for _, landed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, landed %v", name, landed), func(t *testing.T) {
				t.Parallel()
				s := open(t, memstore.New())
				s.quota("ns", 4, 0)
				s.quota("other", 4, 0)
				hear := s.store.deafen()
				t.Cleanup(hear)
				s.ledger.enter([]string{"ns"})
				s.must(creation("ns/before")) // the ledger remembers what the cache has not heard of
				s.store.fail(fault{err: store.ErrUnknownOutcome, landed: landed}, fault{after: hear})
				if err := s.commit(t.Context(), shape()); !errors.Is(err, store.ErrUnknownOutcome) || !store.Retriable(err) {
					t.Fatalf("the loss is told as %v", err)
				}
				want := map[bool]error{true: store.ErrExists}[landed]
				if err := s.commit(t.Context(), shape()); !errors.Is(err, want) {
					t.Fatalf("again: %v, want %v", err, want)
				}
				used := map[string]int64{"ns": 1, "other": 0}
				for _, u := range shape().usages {
					used[u.Namespace]++
				}
				s.exact(used)
				hear()
				for ns := range used {
					for ; used[ns] < 4; used[ns]++ { // what is left can be used, and no more
						s.must(creation(fmt.Sprintf("%s/after-%d", ns, used[ns])))
					}
					if err := s.commit(t.Context(), creation(ns+"/more")); err == nil {
						t.Errorf("more fits into %s", ns)
					}
				}
				s.exact(used)
			})
		}
	}
}

// TestALostGroupIsToldToAll loses the commit of a group: everybody in it is told so, and everybody's next try is counted once.
func TestALostGroupIsToldToAll(t *testing.T) {
	t.Parallel()
	for _, landed := range []bool{true, false} {
		t.Run(fmt.Sprint("landed ", landed), func(t *testing.T) {
			t.Parallel()
			s := open(t, memstore.New())
			s.quota("ns", 6, 0)
			s.store.fail(fault{err: store.ErrUnknownOutcome, landed: landed})
			group := []*entry{creation("ns/a"), creation("ns/b"), creation("ns/c")}
			s.group(group...)
			for n, e := range group {
				if !errors.Is(e.err, store.ErrUnknownOutcome) {
					t.Errorf("entry %d: %v", n, e.err)
				}
			}
			again := []*entry{creation("ns/a"), creation("ns/b"), creation("ns/c")}
			s.group(again...)
			for n, e := range again {
				if want := map[bool]error{true: store.ErrExists}[landed]; !errors.Is(e.err, want) {
					t.Errorf("entry %d again: %v", n, e.err)
				}
			}
			s.exact(map[string]int64{"ns": 3})
		})
	}
}

// TestWhatIsGivenBackIsGivenBackOnce makes a change that consumes less than before, loses it, and tries again as its caller would:
// the same write, which names the revision that it replaces.
func TestWhatIsGivenBackIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	for _, op := range []store.Op{store.Update, store.Delete} {
		for _, landed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, landed %v", op, landed), func(t *testing.T) {
				t.Parallel()
				s := open(t, memstore.New())
				s.quota("ns", 4, 0)
				s.must(creation("ns/a"))
				s.must(creation("ns/b"))
				stored, err := s.store.Get(t.Context(), keyOf("ns", "a"))
				if err != nil {
					t.Fatal(err)
				}
				less := func() *entry {
					return &entry{usages: []*admission.Usage{usage("ns", -1)}, done: make(chan struct{}),
						writes: []store.Write{{Op: op, Key: stored.Key, Value: []byte("{}"), Revision: stored.Revision}}}
				}
				s.store.fail(fault{err: store.ErrUnknownOutcome, landed: landed})
				if err := s.commit(t.Context(), less()); !errors.Is(err, store.ErrUnknownOutcome) {
					t.Fatal(err)
				}
				for try, lands := 0, !landed; try < 3; try, lands = try+1, false {
					err := s.commit(t.Context(), less())
					var conflict *store.ConflictError
					moved := errors.As(err, &conflict) || errors.Is(err, store.ErrNotFound)
					if lands && err != nil || !lands && !moved {
						t.Errorf("try %d: %v", try, err)
					}
				}
				if used, _ := s.used("ns"); used != 1 {
					t.Errorf("%d used", used)
				}
			})
		}
	}
}

// TestAFailureOfTheStoreChargesNothing lets commits, and the reads that they need, fail in every way that a store knows.
func TestAFailureOfTheStoreChargesNothing(t *testing.T) {
	t.Parallel()
	full := errors.New("disk is full")
	behind := &cache.BehindError{Wanted: 9, Current: 1}
	moved := func(s *server) { // another server charges: this one's next commit comes too late
		hear := s.store.deafen()
		s.t.Cleanup(hear)
		s.store.fail(fault{before: func() {
			r := s.store.Store.Write(s.t.Context(), store.Write{Op: store.Update, Key: quotaKind.Key("ns", "q"), Value: s.encode("ns", 4, 0)})
			if r.Err != nil {
				s.t.Error(r.Err)
			}
		}, after: hear})
	}
	gone := func(s *server) { // the quota is made anew meanwhile
		s.store.fail(fault{before: func() {
			for _, w := range []store.Write{{Op: store.Delete}, {Op: store.Create, Value: s.encode("ns", 4, 0)}, {Op: store.Delete}} {
				w.Key = quotaKind.Key("ns", "q")
				if r := s.store.Store.Write(s.t.Context(), w); r.Err != nil {
					s.t.Error(r.Err)
				}
			}
		}})
	}
	for _, test := range []struct {
		name      string
		spoil     func(s *server)
		want      error
		retriable bool
	}{
		{"unavailable", func(s *server) { s.store.fail(fault{err: fmt.Errorf("%w: no route", store.ErrUnavailable)}) }, store.ErrUnavailable, true},
		{"unknown", func(s *server) { s.store.fail(fault{err: store.ErrUnknownOutcome}) }, store.ErrUnknownOutcome, true},
		{"too old", func(s *server) { s.store.fail(fault{err: store.ErrTooOld}) }, store.ErrTooOld, false},
		{"fenced", func(s *server) { s.store.fail(fault{err: store.ErrFenced}) }, store.ErrFenced, false},
		{"invalid", func(s *server) { s.store.fail(fault{err: store.ErrInvalid}) }, store.ErrInvalid, false},
		{"full", func(s *server) { s.store.fail(fault{err: full}) }, full, false},
		{"moved, and the cache is behind", func(s *server) { moved(s); s.cache.err = behind }, behind, false},
		{"moved, and the cache is loading", func(s *server) { moved(s); s.cache.err = cache.ErrLoading }, cache.ErrLoading, false},
		{"moved, and time is up", func(s *server) { moved(s); s.cache.err = context.DeadlineExceeded }, store.ErrUnavailable, true},
		{"gone, and the store is unavailable", func(s *server) { gone(s); s.store.unread(store.ErrUnavailable) }, store.ErrUnavailable, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, memstore.New())
			s.quota("ns", 4, 0)
			test.spoil(s)
			err := s.commit(t.Context(), together(creation("ns/a"), creation("ns/b")))
			if !errors.Is(err, test.want) || store.Retriable(err) != test.retriable {
				t.Errorf("got %v (retriable %v), want %v", err, store.Retriable(err), test.want)
			}
			if page, err := s.store.List(t.Context(), store.Query{Prefix: keyOf("ns", "")}); err != nil || len(page.Entries) > 0 {
				t.Errorf("%d are there, %v", len(page.Entries), err)
			}
			s.cache.err = nil
			s.store.unread(nil)
			if _, err := s.store.Get(t.Context(), quotaKind.Key("ns", "q")); errors.Is(err, store.ErrNotFound) {
				s.quota("ns", 4, 0)
			}
			s.catchUp()
			s.exact(map[string]int64{"ns": 0})
			s.must(together(creation("ns/a"), creation("ns/b")))
			s.exact(map[string]int64{"ns": 2})
		})
	}
}

// TestARefusalNeedsNoStore keeps to what is known when the store cannot be asked whether it still holds.
func TestARefusalNeedsNoStore(t *testing.T) {
	t.Parallel()
	s := open(t, memstore.New())
	s.quota("ns", 1, 1)
	s.store.unread(store.ErrUnavailable)
	if err := s.commit(t.Context(), creation("ns/a")); err == nil || store.Retriable(err) {
		t.Errorf("got %v", err)
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.writes != 0 {
		t.Errorf("%d writes", s.store.writes)
	}
}

// TestTheLogIsCompactedUnderTheLedger takes the log away that the cache would have followed to the quota that a commit fell over:
// the cache reads everything anew, and the commit lands.
func TestTheLogIsCompactedUnderTheLedger(t *testing.T) {
	t.Parallel()
	state := memstore.New()
	s, other := open(t, state), open(t, state)
	s.quota("ns", 4, 0)
	other.catchUp()
	hear := s.store.deafen()
	t.Cleanup(hear)
	other.must(creation("ns/a"))
	other.must(creation("ns/b"))
	revision, err := state.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.store.fail(fault{after: func() { state.Compact(revision); hear() }})
	s.must(creation("ns/c"))
	s.exact(map[string]int64{"ns": 3})
}
