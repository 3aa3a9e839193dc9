package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

// historian answers the store as a reader of the past.
func historian(t *testing.T, s store.Store) store.Historian {
	t.Helper()
	h, ok := s.(store.Historian)
	if !ok {
		t.Fatalf("%T has no history", s)
	}
	return h
}

// testHistory looks at three lives of a key, among changes of others.
func testHistory(t *testing.T, state State) {
	s := state.Open(t)
	h := historian(t, s)
	write := func(w store.Write, origin string) int64 {
		w.Actor, w.Origin = "who", origin
		must(t, s.Write(t.Context(), create(fmt.Sprint("/other/", origin), "x")))
		return must(t, s.Write(t.Context(), w))
	}
	first := write(create("/k", "one"), "create\tm\tp")
	second := write(update("/k", "two", first), "update\tm\tp")
	third := write(remove("/k", second), "delete\tm\tp")
	fourth := write(create("/k", "three"), "patch/status\tm\tp")
	fifth := write(remove("/k", 0), "delete2\tm\tp")

	v, err := h.History(t.Context(), store.HistoryQuery{Key: "/k"})
	if err != nil || v.More || v.Base != nil || v.Oldest.IsZero() || v.Revision < fifth {
		t.Fatalf("%+v, %v", v, err)
	}
	want := []struct {
		revision int64
		value    string
		previous string
		origin   string
	}{
		{fifth, "", "three", "delete2\tm\tp"}, {fourth, "three", "", "patch/status\tm\tp"}, {third, "", "two", "delete\tm\tp"},
		{second, "two", "one", "update\tm\tp"}, {first, "one", "", "create\tm\tp"},
	}
	if len(v.Changes) != len(want) {
		t.Fatalf("%d changes, want %d", len(v.Changes), len(want))
	}
	for i, c := range v.Changes {
		previous := ""
		if c.Previous != nil {
			previous = string(c.Previous.Value)
		}
		w := want[i]
		if c.Revision != w.revision || string(c.Value) != w.value || previous != w.previous || c.Origin != w.origin || c.Actor != "who" || c.Time.IsZero() ||
			(c.Type == store.Removed) != (w.value == "") {
			t.Errorf("change %d: %+v (before it %q), want %+v", i, c, previous, w)
		}
	}
	some, err := h.History(t.Context(), store.HistoryQuery{Key: "/k", Before: fifth, Limit: 2})
	if err != nil || len(some.Changes) != 2 || some.Changes[0].Revision != fourth || !some.More {
		t.Errorf("a page: %+v, %v", some, err)
	}
	none, err := h.History(t.Context(), store.HistoryQuery{Key: "/k", Since: v.Changes[0].Time.Add(time.Hour)})
	if err != nil || len(none.Changes) != 0 {
		t.Errorf("since later: %+v, %v", none, err)
	}
	if v, err := h.History(t.Context(), store.HistoryQuery{Key: "/absent"}); err != nil || len(v.Changes) != 0 || v.Base != nil {
		t.Errorf("a key that never was: %+v, %v", v, err)
	}
}

// testHistoryAfterCompaction looks at keys whose beginnings the log does not hold any more.
func testHistoryAfterCompaction(t *testing.T, state State) {
	s := state.Open(t)
	h := historian(t, s)
	still := must(t, s.Write(t.Context(), create("/still", "as it was")))
	moved := must(t, s.Write(t.Context(), create("/moved", "one")))
	for i := range 200 {
		must(t, s.Write(t.Context(), create(fmt.Sprint("/fill/", i), "x")))
		if i == 150 {
			must(t, s.Write(t.Context(), update("/moved", "two", 0)))
		}
	}
	compacted := state.Compact(t)
	v, err := h.History(t.Context(), store.HistoryQuery{Key: "/still"})
	if err != nil || len(v.Changes) != 0 || v.Base == nil || v.Base.Revision != still || string(v.Base.Value) != "as it was" || v.Compacted != compacted {
		t.Errorf("unchanged: %+v, %v", v, err)
	}
	// Whether its second version is still kept depends on the sizes of what is thrown away; what was before it is told in either case.
	v, err = h.History(t.Context(), store.HistoryQuery{Key: "/moved"})
	switch {
	case err != nil || v.Base == nil:
		t.Errorf("changed: %+v, %v", v, err)
	case len(v.Changes) == 0 && string(v.Base.Value) != "two":
		t.Errorf("base is %q, want the present state", v.Base.Value)
	case len(v.Changes) == 1 && (string(v.Base.Value) != "one" || v.Base.Revision != moved || string(v.Changes[0].Previous.Value) != "one"):
		t.Errorf("base %+v, change %+v", v.Base, v.Changes[0])
	}
}

// testRevisionAt finds each write by its time.
func testRevisionAt(t *testing.T, state State) {
	s := state.Open(t)
	h := historian(t, s)
	var results []store.Result
	for i := range 20 {
		r := s.Write(t.Context(), create(fmt.Sprint("/k/", i), "x"))
		must(t, r)
		if len(results) > 0 && !r.Time.After(results[len(results)-1].Time) {
			continue // the clock did not move: which of the two is meant cannot be told
		}
		results = append(results, r)
	}
	for _, r := range results {
		if got, err := h.RevisionAt(t.Context(), r.Time); err != nil || got < r.Revision {
			t.Errorf("at %s: %d, %v; want %d", r.Time, got, err, r.Revision)
		}
		if got, err := h.RevisionAt(t.Context(), r.Time.Add(-time.Microsecond)); err != nil || got >= r.Revision {
			t.Errorf("before %s: %d, %v; want less than %d", r.Time, got, err, r.Revision)
		}
	}
	if _, err := h.RevisionAt(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, store.ErrFuture) {
		t.Errorf("in an hour: %v", err)
	}
	state.Compact(t)
	if _, err := h.RevisionAt(t.Context(), time.Now().Add(-time.Hour)); err != nil && !errors.Is(err, store.ErrTooOld) {
		t.Errorf("an hour ago: %v", err)
	}
}
