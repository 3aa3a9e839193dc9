package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

// replay answers all that a query selects, piece by piece, and checks the pieces.
func replay(t *testing.T, s store.Store, q store.ReplayQuery) (changes []store.Change) {
	t.Helper()
	for q.After < q.To {
		r, err := s.Replay(t.Context(), q)
		if err != nil {
			t.Fatalf("replay %+v: %v", q, err)
		}
		if r.Through <= q.After || len(r.Groups) != len(r.Changes) {
			t.Fatalf("replay %+v goes up to %d, with %d changes and %d groups", q, r.Through, len(r.Changes), len(r.Groups))
		}
		for i, c := range r.Changes {
			if c.Revision > r.Through || r.Groups[i] > r.Through || r.Groups[i] < c.Revision || c.Last != (r.Groups[i] == c.Revision) {
				t.Errorf("replay %+v: %d in the group %d, last %v, in a piece up to %d", q, c.Revision, r.Groups[i], c.Last, r.Through)
			}
		}
		changes = append(changes, r.Changes...)
		q.After = r.Through
	}
	return changes
}

// testReplay compares replays of any part of a log with what the tail told.
func testReplay(t *testing.T, state State) {
	s := state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 8))
	history(t, s, random, 120)
	var group []store.Write
	for i := range 40 {
		group = append(group, create(fmt.Sprintf("/%s/group-%d", []string{"odd", "even"}[i%2], i), "x"))
	}
	if _, err := s.WriteAtomic(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	newest := must(t, s.Write(t.Context(), create("/odd/end", "x")))
	events := tailTo(t, s, start, newest)
	for range 60 {
		low := start + random.Int64N(newest-start)
		q := store.ReplayQuery{After: low, To: low + random.Int64N(newest-low+1), Limit: 1 + random.IntN(20), Previous: random.IntN(2) == 0,
			Prefix: []string{"", "/h/", "/h/1", "/odd/", "/nothing/"}[random.IntN(5)]}
		got := replay(t, s, q)
		for _, e := range events {
			if e.Revision <= q.After || !strings.HasPrefix(e.Key, q.Prefix) {
				continue
			}
			if len(got) == 0 {
				if e.Revision <= q.To {
					t.Errorf("replay %+v lacks %d", q, e.Revision)
				}
				break
			}
			compare(t, q, events, got[0], e)
			got = got[1:]
		}
	}
	_, err = s.Replay(t.Context(), store.ReplayQuery{After: start, To: newest + 1})
	wantErr(t, err, store.ErrFuture)
}

func compare(t *testing.T, q store.ReplayQuery, events []store.Event, got store.Change, want store.Event) {
	t.Helper()
	if got.Revision != want.Revision || got.Type != want.Type || got.Key != want.Key || !bytes.Equal(got.Value, want.Value) ||
		got.PreviousRevision != want.PreviousRevision || got.CreateRevision != want.CreateRevision || got.Last != want.Last {
		t.Errorf("replay %+v: %+v, want %+v", q, got.Event, want)
	}
	if want.PreviousRevision == 0 || !q.Previous && want.Type != store.Removed {
		return
	}
	for _, e := range events {
		if e.Revision == want.PreviousRevision && (got.Previous == nil || !bytes.Equal(got.Previous.Value, e.Value) || got.Previous.Revision != e.Revision) {
			t.Errorf("replay %+v: %d replaced %+v, want %+v", q, got.Revision, got.Previous, e)
		}
	}
}

func testReplayAfterCompaction(t *testing.T, state State) {
	s := state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Write(t.Context(), create("/removed", "before")))
	must(t, s.Write(t.Context(), create("/changed", "before")))
	history(t, s, rand.New(rand.NewPCG(9, 10)), 150)
	compacted := state.Compact(t)
	must(t, s.Write(t.Context(), remove("/removed", 0)))
	newest := must(t, s.Write(t.Context(), update("/changed", "after", 0)))
	r, err := s.Replay(t.Context(), store.ReplayQuery{After: start, To: newest})
	if wantErr(t, err, store.ErrTooOld); r.Compacted != compacted {
		t.Errorf("the log is said to begin after %d, want %d", r.Compacted, compacted)
	}
	for _, prefix := range []string{"/removed", "/changed"} {
		got := replay(t, s, store.ReplayQuery{Prefix: prefix, After: compacted, To: newest, Previous: true})
		if len(got) != 1 || got[0].Previous == nil || string(got[0].Previous.Value) != "before" {
			t.Errorf("%s: %+v", prefix, got)
		}
	}
}
