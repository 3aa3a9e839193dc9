package ledger

import (
	"fmt"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/store"
)

// TestGroupsAreBounded empties queues group by group.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	const small, half, whole = 1, maxBytes / 2, maxBytes
	repeat := func(n int, e func(i int) *entry) (queue []*entry) {
		for i := range n {
			queue = append(queue, e(i))
		}
		return queue
	}
	weighing := func(bytes, writes int) func(i int) *entry {
		value := make([]byte, bytes/writes)
		return func(i int) *entry {
			e := &entry{}
			for n := range writes {
				e.writes = append(e.writes, store.Write{Op: store.Create, Key: keyOf("ns", fmt.Sprint(i, "-", n)), Value: value})
			}
			return e
		}
	}
	for _, test := range []struct {
		name  string
		queue []*entry
		want  string // the sizes of the groups
	}{
		{"none", nil, ""},
		{"one", repeat(1, weighing(small, 1)), "1"},
		{"many", repeat(2*maxGroup+1, weighing(small, 1)), "128 128 1"},
		{"the same key", repeat(3, func(int) *entry { return creation("ns/a") }), "1 1 1"},
		{"the same key behind others", append(repeat(2, weighing(small, 1)), repeat(2, weighing(small, 1))...), "2 2"},
		{"of many writes", repeat(3, weighing(maxWrites/2, maxWrites/2)), "2 1"},
		{"of too many writes", repeat(2, weighing(2*maxWrites, 2*maxWrites)), "1 1"},
		{"heavy", repeat(5, weighing(half, 1)), "2 2 1"},
		{"too heavy", repeat(2, weighing(2*whole, 2)), "1 1"},
		{"light beside heavy", append(repeat(1, weighing(whole, 1)), weighing(small, 1)(1), weighing(0, 1)(2)), "2 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := &account{}
			for _, e := range test.queue {
				a.push(e)
			}
			var sizes []string
			for !a.idle() {
				sizes = append(sizes, fmt.Sprint(len(a.take())))
			}
			if got := strings.Join(sizes, " "); got != test.want {
				t.Errorf("groups of %s, want %s", got, test.want)
			}
		})
	}
}
