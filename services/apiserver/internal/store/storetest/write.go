package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

func testCreate(t *testing.T, state State) {
	s := state.Open(t)
	first := must(t, s.Write(t.Context(), create("/a", "one")))
	if first < 1 {
		t.Errorf("revision %d is not positive", first)
	}
	wantErr(t, s.Write(t.Context(), create("/a", "two")).Err, store.ErrExists)
	got, err := s.Get(t.Context(), "/a")
	if err != nil || string(got.Value) != "one" || got.Revision != first || got.CreateRevision != first {
		t.Errorf("Get = %+v, %v", got, err)
	}
	if second := must(t, s.Write(t.Context(), create("/b", ""))); second != first+1 {
		t.Errorf("a failed write took a revision: %d follows %d", second, first)
	}
	wantValue(t, s, "/b", "")
	_, err = s.Get(t.Context(), "/none")
	wantErr(t, err, store.ErrNotFound)
}

func testCompareAndSwap(t *testing.T, state State) {
	s := state.Open(t)
	wantErr(t, s.Write(t.Context(), update("/a", "x", 0)).Err, store.ErrNotFound)
	first := must(t, s.Write(t.Context(), create("/a", "one")))
	wantConflict(t, s.Write(t.Context(), update("/a", "x", first+7)).Err, first)
	r := s.Write(t.Context(), update("/a", "two", first))
	second := must(t, r)
	if p := r.Previous; p == nil || p.Key != "/a" || p.Revision != first || p.CreateRevision != first {
		t.Errorf("Previous = %+v", p)
	}
	wantConflict(t, s.Write(t.Context(), update("/a", "x", first)).Err, second)
	wantValue(t, s, "/a", "two")
	r = s.Write(t.Context(), update("/a", "three", 0))
	if must(t, r); r.Previous == nil || string(r.Previous.Value) != "two" {
		t.Errorf("Previous of an unconditional update = %+v, want its bytes", r.Previous)
	}
	if got, err := s.Get(t.Context(), "/a"); err != nil || got.CreateRevision != first {
		t.Errorf("Get = %+v, %v, want life since %d", got, err, first)
	}
}

func testDelete(t *testing.T, state State) {
	s := state.Open(t)
	wantErr(t, s.Write(t.Context(), remove("/a", 0)).Err, store.ErrNotFound)
	first := must(t, s.Write(t.Context(), create("/a", "one")))
	wantConflict(t, s.Write(t.Context(), remove("/a", first+1)).Err, first)
	r := s.Write(t.Context(), remove("/a", 0))
	if must(t, r); r.Previous == nil || string(r.Previous.Value) != "one" || r.Previous.Revision != first {
		t.Errorf("Previous = %+v", r.Previous)
	}
	_, err := s.Get(t.Context(), "/a")
	wantErr(t, err, store.ErrNotFound)
	again := must(t, s.Write(t.Context(), create("/a", "two")))
	if again != first+2 {
		t.Errorf("revision %d after a deletion, want %d: a deletion takes one", again, first+2)
	}
	if got, _ := s.Get(t.Context(), "/a"); got.CreateRevision != again {
		t.Errorf("second life began at %d, want %d", got.CreateRevision, again)
	}
	must(t, s.Write(t.Context(), remove("/a", again)))
}

// A Delete with a value tells of that state and removes it, in lone writes, in batches and in groups.
func testToldDelete(t *testing.T, state State) {
	s := state.Open(t)
	told := func(key, value string, revision int64) store.Write {
		return store.Write{Op: store.Delete, Key: key, Value: []byte(value), Revision: revision, Actor: "who"}
	}
	wantErr(t, s.Write(t.Context(), told("/a", "last", 0)).Err, store.ErrNotFound)
	first := must(t, s.Write(t.Context(), create("/a", "one")))
	wantConflict(t, s.Write(t.Context(), told("/a", "last", first+1)).Err, first)
	r := s.Write(t.Context(), told("/a", "last", 0))
	if must(t, r) != first+2 || r.Previous == nil || string(r.Previous.Value) != "one" || r.Previous.Revision != first {
		t.Errorf("revision %d, previous %+v; want %d and what stood before", r.Revision, r.Previous, first+2)
	}
	_, err := s.Get(t.Context(), "/a")
	wantErr(t, err, store.ErrNotFound)
	wantTold(t, tailTo(t, s, first, first+2), "/a", first, "last")
	v, err := historian(t, s).History(t.Context(), store.HistoryQuery{Key: "/a"})
	if err != nil || len(v.Changes) != 3 || string(v.Changes[0].Previous.Value) != "last" || string(v.Changes[1].Previous.Value) != "one" {
		t.Errorf("its history is %+v, %v", v, err)
	}

	for _, n := range []int{2, 8, 9, 300} {
		base := must(t, s.Write(t.Context(), create(fmt.Sprint("/gone/", n), "x")))
		group := []store.Write{told(fmt.Sprint("/gone/", n), "last", base)}
		for i := 1; i < n; i++ {
			group = append(group, create(fmt.Sprintf("/group/%d/%d", n, i), "x"))
		}
		results, err := s.WriteAtomic(t.Context(), group)
		if err != nil {
			t.Fatalf("group of %d: %v", n, err)
		}
		for i, r := range results {
			if r.Revision != base+int64(i)+2 {
				t.Fatalf("group of %d: write %d has revision %d, want %d", n, i, r.Revision, base+int64(i)+2)
			}
		}
		events := tailTo(t, s, base, base+int64(n)+1)
		wantTold(t, events[:2], group[0].Key, base, "last")
		for i, e := range events {
			if e.Last != (i == n) {
				t.Fatalf("group of %d: event %d says that it is the last: %t", n, i, e.Last)
			}
		}
	}
}

func testToldDeletesAtOnce(t *testing.T, state State) {
	s := state.Open(t)
	const n = 60
	base := int64(0)
	for i := range n {
		base = must(t, s.Write(t.Context(), create(fmt.Sprintf("/%d", i), "x")))
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w := remove(fmt.Sprintf("/%d", i), 0)
			if i%2 == 0 {
				w.Value = []byte("last")
			}
			if r := s.Write(t.Context(), w); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	wg.Wait()
	last := map[string]store.Event{}
	for _, e := range tailTo(t, s, base, base+n+n/2) {
		if before := last[e.Key]; e.Type == store.Removed && before.Revision != 0 {
			wantTold(t, []store.Event{before, e}, e.Key, before.PreviousRevision, "last")
		}
		last[e.Key] = e
	}
	if page, err := s.List(t.Context(), store.Query{}); err != nil || len(page.Entries) != 0 || len(last) != n {
		t.Errorf("%d are left, %v; %d were told of", len(page.Entries), err, len(last))
	}
}

func wantTold(t *testing.T, events []store.Event, key string, from int64, value string) {
	t.Helper()
	if len(events) != 2 {
		t.Fatalf("%d events, want 2", len(events))
	}
	put, gone := events[0], events[1]
	if put.Type != store.Put || put.Key != key || string(put.Value) != value || put.PreviousRevision != from || put.Last {
		t.Errorf("the last state is told as %+v", put)
	}
	if gone.Type != store.Removed || gone.Key != key || gone.Value != nil || gone.PreviousRevision != put.Revision ||
		gone.Revision != put.Revision+1 || gone.CreateRevision != put.CreateRevision {
		t.Errorf("the removal is told as %+v", gone)
	}
}

func testInvalidWrites(t *testing.T, state State) {
	s := state.Open(t)
	for name, w := range map[string]store.Write{
		"no operation":      {Key: "/a"},
		"no key":            create("", "x"),
		"NUL":               create("/a\x00b", "x"),
		"not UTF-8":         create("/a\xff", "x"),
		"long key":          create(strings.Repeat("k", 1025), "x"),
		"huge value":        create("/a", strings.Repeat("v", 9<<20)),
		"negative revision": update("/a", "x", -1),
	} {
		if err := s.Write(t.Context(), w).Err; !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
	_, err := s.WriteAtomic(t.Context(), []store.Write{create("/a", "x"), create("/b", "x"), remove("/a", 0)})
	wantErr(t, err, store.ErrInvalid)
	if results, err := s.WriteAtomic(t.Context(), nil); err != nil || len(results) != 0 {
		t.Errorf("empty group: %v, %v", results, err)
	}
	w := create("/odd", "x")
	w.Trace, w.Actor = "\x00\xff", "who\x00"
	must(t, s.Write(t.Context(), w))
	must(t, s.Write(t.Context(), create("/"+strings.Repeat("ключ", 100), strings.Repeat("v", 3<<20))))
}

func testAtomicGroup(t *testing.T, state State) {
	s := state.Open(t)
	base := must(t, s.Write(t.Context(), create("/old", "one")))
	for _, n := range []int{1, 2, 8, 9, 300} {
		group := []store.Write{update("/old", fmt.Sprint("for ", n), base)}
		for i := 1; i < n; i++ {
			group = append(group, create(fmt.Sprintf("/group/%d/%d", n, i), fmt.Sprint(i)))
		}
		results, err := s.WriteAtomic(t.Context(), group)
		if err != nil || len(results) != n {
			t.Fatalf("group of %d: %d results, %v", n, len(results), err)
		}
		for i, r := range results {
			if r.Err != nil || r.Revision != base+int64(i)+1 {
				t.Fatalf("group of %d: write %d has revision %d, %v; want %d", n, i, r.Revision, r.Err, base+int64(i)+1)
			}
		}
		wantValue(t, s, "/old", fmt.Sprint("for ", n))
		base = results[0].Revision
		// The next group continues after this one's last revision.
		if n > 1 {
			base = must(t, s.Write(t.Context(), update("/old", "x", base)))
		}
	}
}

func testAtomicGroupFails(t *testing.T, state State) {
	s := state.Open(t)
	base := must(t, s.Write(t.Context(), create("/there", "one")))
	for _, n := range []int{2, 8, 9, 300} {
		var group []store.Write
		for i := range n - 1 {
			group = append(group, create(fmt.Sprintf("/group/%d/%d", n, i), "x"))
		}
		group = append(group, update("/there", "two", base+1))
		results, err := s.WriteAtomic(t.Context(), group)
		wantConflict(t, err, base)
		for i, r := range results[:n-1] {
			if !errors.Is(r.Err, store.ErrAborted) {
				t.Fatalf("group of %d: write %d: %v, want ErrAborted", n, i, r.Err)
			}
		}
		wantConflict(t, results[n-1].Err, base)
	}
	page, err := s.List(t.Context(), store.Query{})
	if err != nil || len(page.Entries) != 1 || page.Revision != base {
		t.Errorf("after failed groups: %d entries at %d, %v; want one at %d", len(page.Entries), page.Revision, err, base)
	}
}

func testFence(t *testing.T, state State) {
	s := state.Open(t)
	fenced := func(key string, epoch int64) error {
		w := create(key, "x")
		w.Fence = store.Fence{Role: "scheduler", Epoch: epoch}
		return s.Write(t.Context(), w).Err
	}
	wantErr(t, fenced("/nobody-leads", 1), store.ErrFenced)
	epoch := state.Lead(t, "scheduler")
	if err := fenced("/leader", epoch); err != nil {
		t.Errorf("the leader's write: %v", err)
	}
	wantErr(t, fenced("/future", epoch+1), store.ErrFenced)
	if next := state.Lead(t, "scheduler"); next <= epoch {
		t.Errorf("epoch %d follows %d", next, epoch)
	}
	wantErr(t, fenced("/deposed", epoch), store.ErrFenced)
	results, err := s.WriteAtomic(t.Context(), []store.Write{
		create("/with-deposed", "x"),
		{Op: store.Create, Key: "/deposed", Fence: store.Fence{Role: "scheduler", Epoch: epoch}}})
	wantErr(t, err, store.ErrFenced)
	wantErr(t, results[0].Err, store.ErrAborted)
}

func testFenceOfManyWrites(t *testing.T, state State) {
	s := state.Open(t)
	old := state.Lead(t, "scheduler")
	state.Lead(t, "scheduler")
	other := state.Lead(t, "controllers")
	// Many at once share batches; each must be judged by its own fence.
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			w := create(fmt.Sprintf("/%d", i), "x")
			want := error(nil)
			switch i % 3 {
			case 0:
				w.Fence, want = store.Fence{Role: "scheduler", Epoch: old}, store.ErrFenced
			case 1:
				w.Fence = store.Fence{Role: "controllers", Epoch: other}
			}
			wantErr(t, s.Write(t.Context(), w).Err, want)
		})
	}
	wg.Wait()
}

func testCanceledWrite(t *testing.T, state State) {
	s := state.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, s.Write(ctx, create("/a", "x")).Err, store.ErrUnavailable)
	must(t, s.Write(t.Context(), create("/b", "x")))
	_, err := s.Get(t.Context(), "/a")
	wantErr(t, err, store.ErrNotFound)
}
