package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

func testRevisionCoversAcknowledgedWrites(t *testing.T, state State) {
	writer, reader := state.Open(t), state.Open(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				acknowledged := must(t, writer.Write(t.Context(), create(fmt.Sprintf("/%d/%d", i, j), "x")))
				if newest, err := reader.Revision(t.Context()); err != nil || newest < acknowledged {
					t.Errorf("Revision = %d, %v after %d was acknowledged", newest, err, acknowledged)
				}
			}
		})
	}
	wg.Wait()
}

func testListPages(t *testing.T, state State) {
	s := state.Open(t)
	empty, err := s.List(t.Context(), store.Query{})
	if err != nil || len(empty.Entries) != 0 || empty.Next != "" || empty.Revision < 1 {
		t.Errorf("empty list: %+v, %v", empty, err)
	}
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("/k/%02d", i)
		must(t, s.Write(t.Context(), create(key, key)))
		want = append(want, key)
	}
	for _, limit := range []int{1, 7, 24, 25, 26, 0} {
		var got []string
		late := false
		q := store.Query{Prefix: "/k/", Limit: limit}
		for {
			page, err := s.List(t.Context(), q)
			if err != nil || (limit > 0 && len(page.Entries) > limit) {
				t.Fatalf("limit %d: %d entries, %v", limit, len(page.Entries), err)
			}
			for _, e := range page.Entries {
				got = append(got, string(e.Value))
			}
			if page.Next == "" {
				break
			}
			if !late {
				// What is written between the pages must not show in them.
				must(t, s.Write(t.Context(), create("/k/24x", "late")))
				late = true
			}
			q.After, q.Revision = page.Next, page.Revision
		}
		if late {
			must(t, s.Write(t.Context(), remove("/k/24x", 0)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v", limit, got)
		}
	}
}

func testListPrefixes(t *testing.T, state State) {
	s := state.Open(t)
	keys := []string{"/a", "/a/b", "/a/b/c", "/a0", "/ab", "/B", "/a/ü", "/a/~", "/b"}
	for _, key := range keys {
		must(t, s.Write(t.Context(), create(key, "x")))
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "/", "/a", "/a/", "/a/b", "/a/ü", "/c"} {
		page, err := s.List(t.Context(), store.Query{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, e := range page.Entries {
			got = append(got, e.Key)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q: %v, want %v", prefix, got, want)
		}
	}
}

// history makes n random writes, not all of which succeed, alone and in groups, to few keys.
func history(t testing.TB, s store.Store, random *rand.Rand, n int) {
	t.Helper()
	one := func() store.Write {
		key, value := fmt.Sprintf("/h/%d", random.IntN(12)), fmt.Sprint(random.Int64())
		switch random.IntN(6) {
		case 0, 1:
			return create(key, value)
		case 2:
			return remove(key, 0)
		}
		return update(key, value, 0)
	}
	for range n {
		group := []store.Write{one()}
		if random.IntN(4) == 0 {
			for range random.IntN(12) {
				if w := one(); !slices.ContainsFunc(group, func(g store.Write) bool { return g.Key == w.Key }) {
					group = append(group, w)
				}
			}
		}
		if _, err := s.WriteAtomic(t.Context(), group); store.Retriable(err) {
			t.Fatal(err)
		}
	}
}

// replayed answers the models at every revision from one on up to the newest; index 0 is that of base.
func replayed(t testing.TB, base *Model, events []store.Event) []*Model {
	t.Helper()
	models := []*Model{base}
	for _, e := range events {
		next := NewModel(models[len(models)-1].Revision)
		for key, entry := range models[len(models)-1].Entries {
			next.Entries[key] = entry
		}
		if err := next.Apply(e); err != nil {
			t.Fatal(err)
		}
		models = append(models, next)
	}
	return models
}

// wantState compares the list at the model's revision with the model.
func wantState(t testing.TB, s store.Store, m *Model) {
	t.Helper()
	page, err := s.List(t.Context(), store.Query{Revision: m.Revision})
	if err != nil {
		t.Errorf("list at %d: %v", m.Revision, err)
		return
	}
	if diff := SameEntries(page.Entries, m.Sorted()); diff != "" || page.Revision != m.Revision {
		t.Errorf("list at %d: %s; page says %d", m.Revision, diff, page.Revision)
	}
}

func testListAtEveryRevision(t *testing.T, state State) {
	s := state.Open(t)
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	history(t, s, rand.New(rand.NewPCG(1, 2)), 120)
	newest, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	models := replayed(t, NewModel(start), tailTo(t, s, start, newest))
	for _, m := range models {
		wantState(t, s, m)
	}
	page, err := s.List(t.Context(), store.Query{})
	if err != nil || SameEntries(page.Entries, models[len(models)-1].Sorted()) != "" || page.Revision != newest {
		t.Errorf("newest list: at %d, %v", page.Revision, err)
	}
	_, err = s.List(t.Context(), store.Query{Revision: newest + 1})
	wantErr(t, err, store.ErrFuture)
}
