package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

func testEventCarriesAll(t *testing.T, state State) {
	s, other := state.Open(t), state.Open(t)
	before := time.Now().Add(-time.Minute)
	w := create("/a", "one")
	w.Trace, w.Actor = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "alice"
	first := must(t, s.Write(t.Context(), w))
	second := must(t, s.Write(t.Context(), update("/a", "two", first)))
	third := must(t, s.Write(t.Context(), remove("/a", second)))
	want := []store.Event{
		{Type: store.Put, Key: "/a", Value: []byte("one"), Revision: first, CreateRevision: first, Trace: w.Trace, Actor: "alice", Last: true},
		{Type: store.Put, Key: "/a", Value: []byte("two"), Revision: second, PreviousRevision: first, CreateRevision: first, Last: true},
		{Type: store.Removed, Key: "/a", Revision: third, PreviousRevision: second, CreateRevision: first, Last: true},
	}
	for _, s := range []store.Store{s, other} {
		got := tailTo(t, s, first-1, third)
		for i := range got {
			if got[i].Time.Before(before) || got[i].Time.After(time.Now().Add(time.Minute)) {
				t.Errorf("event %d is of %v", i, got[i].Time)
			}
			got[i].Time = time.Time{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("events\n%+v, want\n%+v", got, want)
		}
	}
}

func testTailFromEveryRevision(t *testing.T, state State) {
	s := state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	history(t, s, rand.New(rand.NewPCG(3, 4)), 40)
	newest, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := tailTo(t, s, start, newest)
	for from := start; from < newest; from++ {
		got := tailTo(t, s, from, newest)
		if !reflect.DeepEqual(got, all[from-start:]) {
			t.Errorf("resumed at %d: other events than in the whole log", from)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	wantErr(t, s.Tail(ctx, newest+1, func([]store.Event) error { return nil }), store.ErrTooOld)
}

func testTailEndsWithDeliver(t *testing.T, state State) {
	s := state.Open(t)
	from := must(t, s.Write(t.Context(), create("/a", "x"))) - 1
	failure := errors.New("watcher is gone")
	wantErr(t, s.Tail(t.Context(), from, func([]store.Event) error { return failure }), failure)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Tail(ctx, from, func([]store.Event) error { cancel(); return nil })
	wantErr(t, err, context.Canceled)
}

func testAtomicGroupIsDeliveredWhole(t *testing.T, state State) {
	s, other := state.Open(t), state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Live, while it is written: through the store that writes and through another.
	newest := start + 3*1500 + 3
	live := make(chan error, 2)
	for _, s := range []store.Store{s, other} {
		go func() {
			_, err := tailUntil(t.Context(), s, start, newest)
			live <- err
		}()
	}
	for i := range 3 {
		must(t, s.Write(t.Context(), create(fmt.Sprintf("/lone/%d", i), "x")))
		var group []store.Write
		for j := range 1500 {
			group = append(group, create(fmt.Sprintf("/group/%d/%d", i, j), "x"))
		}
		if _, err := s.WriteAtomic(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-live; err != nil {
			t.Errorf("live: %v", err)
		}
	}
	// And from the log. checkDelivery sees whether a delivery ends inside a group; marks only at the ends are checked here.
	for i, e := range tailTo(t, other, start, newest) {
		if want := i%1501 == 0 || i%1501 == 1500; e.Last != want {
			t.Fatalf("event %d: Last = %v", i, e.Last)
		}
	}
}
