package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

func testCompaction(t *testing.T, state State) {
	s := state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	must(t, s.Write(t.Context(), create("/untouched", "from the beginning")))
	base, compacted := NewModel(start), int64(0)
	for range 3 {
		// New changes replace values that were folded in the round before.
		history(t, s, random, 150)
		newest, err := s.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		models := replayed(t, base, tailTo(t, s, base.Revision, newest))
		limit := state.Compact(t)
		if limit <= compacted || limit >= newest {
			t.Fatalf("compacted up to %d, was at %d, newest is %d", limit, compacted, newest)
		}
		compacted = limit
		for _, m := range models {
			if m.Revision < compacted {
				_, err := s.List(t.Context(), store.Query{Revision: m.Revision})
				wantErr(t, err, store.ErrTooOld)
				wantErr(t, s.Tail(t.Context(), m.Revision, func([]store.Event) error { return errEnough }), store.ErrTooOld)
				continue
			}
			wantState(t, s, m)
		}
		base = models[len(models)-1]
		tailTo(t, s, compacted, newest)
	}
	wantValue(t, s, "/untouched", "from the beginning")
	r := s.Write(t.Context(), remove("/untouched", 0))
	if must(t, r); string(r.Previous.Value) != "from the beginning" {
		t.Errorf("Previous after folding = %q", r.Previous.Value)
	}
}

func testCompactionUnderLoad(t *testing.T, state State) {
	s, other := state.Open(t), state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const writers, writes = 8, 150
	newest := start + writers*writes
	tails := make(chan error, 2)
	for _, s := range []store.Store{s, other} {
		go func() {
			m := NewModel(start)
			err := s.Tail(t.Context(), start, func(es []store.Event) error {
				if err := m.Replay(es); err != nil {
					return err
				}
				if m.Revision == newest {
					return errEnough
				}
				return nil
			})
			// A tail that is overtaken by this merciless compaction has been told so; that is right too.
			if errors.Is(err, errEnough) || errors.Is(err, store.ErrTooOld) {
				err = nil
			}
			tails <- err
		}()
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			key, revision := fmt.Sprintf("/w/%d", w), int64(0)
			for i := range writes {
				next := update(key, fmt.Sprint(i), revision)
				if i == 0 {
					next.Op = store.Create
				}
				if revision = must(t, s.Write(t.Context(), next)); i%10 == 0 {
					if got, err := other.Get(t.Context(), key); err != nil || string(got.Value) != fmt.Sprint(i) {
						t.Errorf("Get = %+v, %v", got, err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for working := true; working; {
		select {
		case <-done:
			working = false
		default:
			state.Compact(t)
		}
	}
	for range 2 {
		if err := <-tails; err != nil {
			t.Errorf("tail: %v", err)
		}
	}
	for w := range writers {
		wantValue(t, other, fmt.Sprintf("/w/%d", w), fmt.Sprint(writes-1))
	}
}

func testSlowTailIsCompactedAway(t *testing.T, state State) {
	s, other := state.Open(t), state.Open(t)
	start := must(t, s.Write(t.Context(), create("/first", "x"))) - 1
	seen, resume := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		last := start
		ended <- other.Tail(t.Context(), start, func(es []store.Event) error {
			if err := checkDelivery(last, es); err != nil {
				return err
			}
			if last == start {
				close(seen)
				<-resume
			}
			last = es[len(es)-1].Revision
			return nil
		})
	}()
	<-seen
	history(t, s, rand.New(rand.NewPCG(7, 8)), 400)
	state.Compact(t)
	close(resume)
	if err := <-ended; !errors.Is(err, store.ErrTooOld) || errors.Is(err, context.Canceled) {
		t.Errorf("tail ended with %v, want ErrTooOld", err)
	}
}
