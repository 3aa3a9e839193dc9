package cache

import (
	"testing"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
)

// TestSizeFollowsTheState has the bytes of the stored objects counted through creations, changes, deletions and a new beginning.
func TestSizeFollowsTheState(t *testing.T) {
	t.Parallel()
	w := setup(t)
	check := func(what string, want int) {
		t.Helper()
		items, sum := w.pods.List(Query{}).Items, 0
		for _, i := range items {
			sum += i.Size()
		}
		if objects, bytes := w.pods.Size(); objects != want || len(items) != want || bytes != sum {
			t.Errorf("%s: %d objects of %d bytes; there are %d of %d", what, objects, bytes, len(items), sum)
		}
	}
	check("nothing", 0)
	w.put("a", "n", "x")
	w.put("b", "n", "x")
	check("created", 2)
	_, small := w.pods.Size()
	w.put("a", "n", "a much longer label than before")
	check("changed", 2)
	if _, bytes := w.pods.Size(); bytes <= small {
		t.Errorf("%d bytes after %d", bytes, small)
	}
	w.commit(store.Write{Op: store.Delete, Key: w.kind.Key("ns", "b")})
	check("deleted", 1)
	items := append([]*codec.Item(nil), w.pods.List(Query{}).Items...)
	w.pods.replace(items, w.cache.Applied())
	check("read anew", 1)
	w.commit(store.Write{Op: store.Delete, Key: w.kind.Key("ns", "a")})
	check("all gone", 0)
}
