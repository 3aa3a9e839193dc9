package pleg

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	before := map[string]state{"a1": {"a", 0}, "a2": {"a", 1}, "b1": {"b", 0}, "c1": {"c", 0}}
	for name, test := range map[string]struct {
		now  map[string]state
		want []types.UID
	}{
		"nothing":      {before, nil},
		"another":      {map[string]state{"a1": {"a", 0}, "a2": {"a", 2}, "b1": {"b", 0}, "c1": {"c", 0}}, []types.UID{"a"}},
		"new and gone": {map[string]state{"a1": {"a", 0}, "a2": {"a", 1}, "b1": {"b", 0}, "d1": {"d", 0}}, []types.UID{"c", "d"}},
		"everything":   {nil, []types.UID{"a", "b", "c"}},
	} {
		got := changed(before, test.now)
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
