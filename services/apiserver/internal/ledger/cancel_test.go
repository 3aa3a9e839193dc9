package ledger

import (
	"context"
	"errors"
	"testing"

	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// TestACancelledCallerIsToldTheTruth cancels a request at every point of its way: before its turn nothing is written, after it the
// commit goes on, for it may be others' too, and its caller is told what became of it.
func TestACancelledCallerIsToldTheTruth(t *testing.T) {
	t.Parallel()
	one := func() *entry { return creation("ns/a") }
	two := func() *entry { return together(creation("ns/a"), creation("other/a")) }
	at := func(s *server, f fault, cancel func()) { f.before = cancel; s.store.fail(f) }
	for _, test := range []struct {
		name   string
		entry  func() *entry
		held   []string // namespaces whose turn is another's
		at     func(s *server, cancel func())
		want   error
		landed bool
	}{
		{"before", one, nil, func(_ *server, cancel func()) { cancel() }, store.ErrUnavailable, false},
		{"before, two namespaces", two, nil, func(_ *server, cancel func()) { cancel() }, store.ErrUnavailable, false},
		{"in the queue", one, []string{"ns"}, func(_ *server, cancel func()) { cancel() }, store.ErrUnavailable, false},
		{"in the second queue", two, []string{"other"}, func(_ *server, cancel func()) { cancel() }, store.ErrUnavailable, false},
		{"during the commit", one, nil, func(s *server, cancel func()) { at(s, fault{}, cancel) }, nil, true},
		{"during the commit, two namespaces", two, nil, func(s *server, cancel func()) { at(s, fault{}, cancel) }, nil, true},
		{"during a commit that is lost", one, nil, func(s *server, cancel func()) {
			at(s, fault{err: store.ErrUnknownOutcome, landed: true}, cancel)
		}, store.ErrUnknownOutcome, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range 20 { // where two things can be done, either may be chosen
				s := open(t, memstore.New())
				s.quota("ns", 4, 0)
				s.quota("other", 4, 0)
				for _, a := range s.ledger.enter(test.held) {
					a.turn <- struct{}{}
				}
				ctx, cancel := context.WithCancel(t.Context())
				test.at(s, cancel)
				err := s.commit(ctx, test.entry())
				cancel()
				if !errors.Is(err, test.want) || test.want == store.ErrUnavailable && !errors.Is(err, context.Canceled) {
					t.Fatalf("got %v, want %v", err, test.want)
				}
				want := map[string]int64{"ns": 0, "other": 0}
				for _, u := range test.entry().usages {
					if test.landed {
						want[u.Namespace]++
					}
				}
				s.exact(want)
				for _, a := range s.ledger.enter(test.held) {
					<-a.turn
				}
				for range 2 {
					s.ledger.leave(test.held)
				}
				s.must(together(creation("ns/b"), creation("other/b"))) // nobody is in the way
				want["ns"]++
				want["other"]++
				s.exact(want)
				if len(s.ledger.accounts) > 0 {
					t.Fatalf("%d accounts are left", len(s.ledger.accounts))
				}
			}
		})
	}
}
