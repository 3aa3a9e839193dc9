package postgres

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

func requestOf(keys ...string) *request {
	r := &request{done: make(chan struct{}), results: make([]store.Result, len(keys)), atomic: len(keys) > 1}
	for _, key := range keys {
		r.writes = append(r.writes, store.Write{Op: store.Update, Key: key})
		r.bytes += 100
	}
	return r
}

func keysOf(batch []*request) (keys []string) {
	for _, r := range batch {
		for _, w := range r.writes {
			keys = append(keys, w.Key)
		}
	}
	return keys
}

func TestBatch(t *testing.T) {
	t.Parallel()
	abandonedOne := requestOf("gone")
	abandonedOne.state.Store(abandoned)
	huge := requestOf("huge")
	huge.bytes = batchBytes
	for name, tt := range map[string]struct {
		requests []*request
		want     []string // the batches
	}{
		"distinct keys ride together":           {[]*request{requestOf("a"), requestOf("b")}, []string{"[a b]"}},
		"the same key waits":                    {[]*request{requestOf("a"), requestOf("a"), requestOf("b")}, []string{"[a b]", "[a]"}},
		"who waits is not overtaken on his key": {[]*request{requestOf("a"), requestOf("a", "b"), requestOf("b"), requestOf("c")}, []string{"[a c]", "[a b]", "[b]"}},
		"abandoned ones vanish":                 {[]*request{abandonedOne, requestOf("a")}, []string{"[a]"}},
		"big ones go alone":                     {[]*request{requestOf("a"), huge, requestOf("b")}, []string{"[a b]", "[huge]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pending{requests: tt.requests}
			for _, want := range tt.want {
				if got := fmt.Sprint(keysOf(p.next())); got != want {
					t.Errorf("batch %s, want %s", got, want)
				}
			}
			if len(p.requests) != 0 {
				t.Errorf("%d requests are left", len(p.requests))
			}
		})
	}
}

func TestBatchIsShared(t *testing.T) {
	t.Parallel()
	var p pending
	queue := func(actor, kind string, count, writes int) {
		for i := range count {
			var keys []string
			for n := range writes {
				keys = append(keys, fmt.Sprint("/core/", kind, "/", actor, "/", i, "-", n))
			}
			r := requestOf(keys...)
			for n := range r.writes {
				r.writes[n].Actor = actor
			}
			p.requests = append(p.requests, r)
		}
	}
	queue("controllers", "pods", 1000, 1)
	queue("scheduler", "pods", 600, 1)
	queue("backup", "secrets", 1, 300) // a batch of its own
	queue("controllers", "events", 10, 20)
	queue("admin", "pods", 1, 1)
	queue("admin", "services", 30, 1)
	var got []string
	for len(p.requests) > 0 {
		counts := map[string]int{}
		for _, r := range p.next() {
			counts[r.flow().actor+r.flow().kind] += len(r.writes)
		}
		got = append(got, fmt.Sprint(counts))
	}
	want := []string{
		// Nobody keeps the one or the thirty waiting, and what was meant for the backup is not left empty.
		"map[admin/core/pods/:1 admin/core/services/:30 controllers/core/events/:40 controllers/core/pods/:129 scheduler/core/pods/:56]",
		"map[controllers/core/events/:60 controllers/core/pods/:132 scheduler/core/pods/:64]",
		"map[controllers/core/events/:60 controllers/core/pods/:132 scheduler/core/pods/:64]",
	}
	for n := range want {
		if got[n] != want[n] {
			t.Errorf("batch %d: %s, want %s", n, got[n], want[n])
		}
	}
	if len(got) != 9 { // 1,831 writes in eight full ones, and the backup
		t.Errorf("%d batches: %v", len(got), got)
	}
}

// Whatever comes: batches have distinct keys, keep the order of each key, keep groups whole, stay in bounds, and end.
func TestBatchProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		var p pending
		order, served := map[string][]*request{}, map[string]int{}
		for range random.IntN(200) {
			var keys []string
			for n, first := 1+random.IntN(1+random.IntN(1+random.IntN(300))), random.IntN(500); len(keys) < n; {
				keys = append(keys, fmt.Sprint(first+len(keys)))
			}
			r := requestOf(keys...)
			actor := fmt.Sprint(random.IntN(1 + random.IntN(20)))
			for n := range r.writes {
				r.writes[n].Actor = actor
			}
			for _, key := range keys {
				order[key] = append(order[key], r)
			}
			p.requests = append(p.requests, r)
		}
		for len(p.requests) > 0 {
			batch := p.next()
			if len(batch) == 0 {
				t.Fatalf("seed %d: empty batch with %d requests waiting", seed, len(p.requests))
			}
			if n := countWrites(batch); n > batchSize && len(batch) > 1 {
				t.Fatalf("seed %d: batch of %d writes", seed, n)
			}
			used := map[string]bool{}
			for _, r := range batch {
				for _, w := range r.writes {
					if used[w.Key] {
						t.Fatalf("seed %d: key twice in a batch", seed)
					}
					used[w.Key] = true
					if order[w.Key][served[w.Key]] != r {
						t.Fatalf("seed %d: writes to a key changed their order", seed)
					}
					served[w.Key]++
				}
			}
		}
	}
}
