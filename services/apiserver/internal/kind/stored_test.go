package kind_test

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/randfill"

	"howdah.dev/services/apiserver/internal/codec"
)

// What is said of where fields lie in stored objects is where they are.
func TestStoredAt(t *testing.T) {
	t.Parallel()
	for _, k := range all() {
		if k.StoredAt == nil {
			if k.Indexed != nil {
				t.Errorf("%s: nobody says where what it is indexed by lies", k.Resource)
			}
			continue
		}
		told := map[string]bool{} // not empty at least once
		for range 200 {
			in := k.New()
			filler(rand.Int64()).Funcs(func(s *corev1.PodSpec, c randfill.Continue) { c.FillNoCustom(s) }).MaxDepth(5).Fill(in)
			in.SetName("a")
			in.SetNamespace("b")
			value, err := codec.Encode(t.Context(), k, in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := codec.Decode(k, value)
			if err != nil {
				t.Fatal(err)
			}
			item, want := codec.NewItem(k, k.Key("b", "a"), value, 1, 1), k.SelectableFields(out)
			for field := range k.StoredAt {
				if got := item.Field(field); got != want[field] {
					t.Errorf("%s: %s is %q, want %q", k.Resource, field, got, want[field])
				}
				told[field] = told[field] || want[field] != ""
			}
		}
		for field := range k.StoredAt {
			if !told[field] {
				t.Errorf("%s: %s is not selectable, or no string", k.Resource, field)
			}
		}
		for _, field := range k.Indexed {
			if k.StoredAt[field] == nil {
				t.Errorf("%s: nobody says where %s lies, by which it is indexed", k.Resource, field)
			}
		}
	}
}
