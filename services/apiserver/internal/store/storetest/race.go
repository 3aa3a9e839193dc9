package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

// testManyWriters lets writers of two stores fight over few keys while both are tailed from the start, and compares everything.
func testManyWriters(t *testing.T, state State) {
	stores := []store.Store{state.Open(t), state.Open(t)}
	start, err := stores[0].Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Int64 // the revision at which tails may end
	type tailed struct {
		events []store.Event
		err    error
	}
	tails := make(chan tailed, 4)
	for i := range 4 {
		go func() {
			var result tailed
			last := start
			result.err = stores[i%2].Tail(t.Context(), start, func(es []store.Event) error {
				if err := checkDelivery(last, es); err != nil {
					return err
				}
				last = es[len(es)-1].Revision
				result.events = append(result.events, es...)
				if last == stop.Load() {
					return errEnough
				}
				return nil
			})
			tails <- result
		}()
	}
	var mu sync.Mutex
	acknowledged := map[int64]store.Write{}
	var wg sync.WaitGroup
	for writer := range 32 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(writer)))
			for i := range 60 {
				key := fmt.Sprintf("/k/%d", random.IntN(20))
				w := update(key, fmt.Sprintf("%d-%d", writer, i), 0)
				switch random.IntN(5) {
				case 0:
					w.Op = store.Create
				case 1:
					w = remove(key, 0)
				case 2:
					if e, err := stores[writer%2].Get(t.Context(), key); err == nil {
						w.Revision = e.Revision
					}
				}
				r := stores[writer%2].Write(t.Context(), w)
				var conflict *store.ConflictError
				switch {
				case r.Err == nil:
					mu.Lock()
					if other, twice := acknowledged[r.Revision]; twice {
						t.Errorf("revision %d was given to %s and %s", r.Revision, other.Key, key)
					}
					acknowledged[r.Revision] = w
					mu.Unlock()
				case errors.Is(r.Err, store.ErrExists), errors.Is(r.Err, store.ErrNotFound), errors.As(r.Err, &conflict):
				default:
					t.Errorf("write: %v", r.Err)
				}
			}
		})
	}
	wg.Wait()
	newest := start + int64(len(acknowledged))
	if got, err := stores[1].Revision(t.Context()); err != nil || got != newest {
		t.Errorf("newest revision is %d, %v; %d writes were acknowledged after %d", got, err, len(acknowledged), start)
	}
	// One more write, so that tails that have already seen the rest get to look at stop.
	stop.Store(newest + 1)
	must(t, stores[0].Write(t.Context(), create("/end", "")))
	var first []store.Event
	for range 4 {
		result := <-tails
		if !errors.Is(result.err, errEnough) {
			t.Fatalf("tail: %v", result.err)
		}
		if first == nil {
			first = result.events
		}
		if !reflect.DeepEqual(result.events, first) {
			t.Error("two tails saw different logs")
		}
	}
	m := NewModel(start)
	if err := m.Replay(first); err != nil {
		t.Fatal(err)
	}
	for _, e := range first[:len(first)-1] {
		w, ok := acknowledged[e.Revision]
		if !ok || w.Key != e.Key || string(w.Value) != string(e.Value) {
			t.Errorf("revision %d: logged %s %q, acknowledged %s %q", e.Revision, e.Key, e.Value, w.Key, w.Value)
		}
	}
	wantState(t, stores[1], m)
}

func testOneWinner(t *testing.T, state State) {
	stores := []store.Store{state.Open(t), state.Open(t)}
	for round := range 10 {
		var winners atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				switch err := stores[i%2].Write(t.Context(), create(fmt.Sprint("/prize/", round), fmt.Sprint(i))).Err; {
				case err == nil:
					winners.Add(1)
				case !errors.Is(err, store.ErrExists):
					t.Errorf("loser's error: %v", err)
				}
			})
		}
		wg.Wait()
		if winners.Load() != 1 {
			t.Errorf("round %d: %d creates of one key succeeded", round, winners.Load())
		}
	}
}
