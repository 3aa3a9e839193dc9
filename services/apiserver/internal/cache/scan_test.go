package cache

import (
	"fmt"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/codec"
)

// TestScanNamespaces lists namespaces whose names sort around each other, in pages of every size.
func TestScanNamespaces(t *testing.T) {
	kind, state := podKind(), newTree()
	all := map[string]string{}
	for _, namespace := range []string{"a", "a-b", "a.c", "a0", "b", "z"} {
		for n := range 3 {
			name := fmt.Sprint("p", n)
			state.ReplaceOrInsert(codec.NewItem(kind, kind.Key(namespace, name), nil, 1, 1))
			all[namespace] += namespace + "/" + name + " "
		}
	}
	all[""] = all["a-b"] + all["a.c"] + all["a"] + all["a0"] + all["b"] + all["z"] // "-" and "." sort before "/"
	for _, namespace := range []string{"", "a", "a-b", "a0", "b", "z", "none", "0", "zz"} {
		for limit := range int64(20) {
			var got strings.Builder
			for q := (Query{Namespace: namespace, Limit: limit}); ; {
				page := scan(state, kind, q)
				for _, i := range page.Items {
					got.WriteString(i.Namespace + "/" + i.Name + " ")
				}
				if limit > 0 && int64(len(page.Items)) > limit {
					t.Errorf("%q by %d: a page of %d", namespace, limit, len(page.Items))
				}
				if q.After = page.Next; page.Next == "" {
					break
				}
			}
			if got.String() != all[namespace] {
				t.Errorf("%q by %d: %s, want %s", namespace, limit, got.String(), all[namespace])
			}
		}
	}
	if page := scan(newTree(), kind, Query{}); len(page.Items) != 0 || page.Next != "" {
		t.Errorf("an empty state: %+v", page)
	}
}
