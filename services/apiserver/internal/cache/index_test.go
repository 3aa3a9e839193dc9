package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/services/apiserver/internal/codec"
)

// TestIndex lists by an indexed field while objects come, change, move and go, in pages of every size: an index finds what looking at all does.
func TestIndex(t *testing.T) {
	w := setup(t)
	random := rand.New(rand.NewPCG(1, 2))
	node := func() string { return []string{"", "a", "b", "c"}[random.IntN(4)] }
	for step := range 400 {
		name := fmt.Sprint("p", random.IntN(30))
		if random.IntN(4) == 0 && w.pods.Get(w.kind.Key("ns", name)) != nil {
			w.remove(name)
		} else {
			w.put(name, node(), fmt.Sprint(random.IntN(2)))
		}
		if step == 200 { // all is read anew
			var items []*codec.Item
			for _, i := range w.pods.items {
				items = append(items, i)
			}
			w.pods.replace(items, w.pods.Last())
		}
		q := Query{Field: fields.OneTermEqualSelector("spec.nodeName", node()), Limit: random.Int64N(5)}
		if random.IntN(3) == 0 {
			q.Namespace = []string{"ns", "other"}[random.IntN(2)]
		}
		found, pages := pagesOf(q, w.pods.List)
		looked, _ := pagesOf(q, func(q Query) Page { return scan(w.pods.sorted, w.kind, q) })
		if fmt.Sprint(found) != fmt.Sprint(looked) {
			t.Fatalf("step %d: %v, want %v", step, found, looked)
		}
		if most := len(found)/max(1, int(q.Limit)) + 1; q.Limit > 0 && pages > most || len(w.pods.indexes) != 1 {
			t.Fatalf("step %d: %d of %d in %d pages, %d indexes", step, len(found), q.Limit, pages, len(w.pods.indexes))
		}
	}
}

// pagesOf returns the keys of all pages, and how many pages there are.
func pagesOf(q Query, list func(Query) Page) (keys []string, pages int) {
	for {
		page := list(q)
		for _, i := range page.Items {
			keys = append(keys, i.Key)
		}
		pages++
		if q.After = page.Next; q.After == "" {
			return keys, pages
		}
	}
}

// BenchmarkIndex lists one of 500 nodes' pods among 5,000, by the index and by looking at all.
func BenchmarkIndex(b *testing.B) {
	kind := podKind()
	r := newResource(&Cache{}, kind)
	for n := range 5000 {
		name := fmt.Sprint("p", n)
		i := codec.NewItem(kind, kind.Key("ns", name), encoded(b, kind, name, fmt.Sprint("node-", n%500), ""), 1, 1)
		r.items[i.Key] = i
		r.sorted.ReplaceOrInsert(i)
	}
	q := Query{Field: fields.OneTermEqualSelector("spec.nodeName", "node-7")}
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			r.List(q)
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			scan(r.sorted, kind, q)
		}
	})
}
