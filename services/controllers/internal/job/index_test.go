package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParseIndexes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "0": "0", "0,1": "0,1", "0-2": "0-2", "0,1,2,4": "0-2,4", "3,1": "1,3", "1-9": "1-4", "7": "", "x,2,3-y,4-": "2", "2-1": "",
	} {
		if got := ParseIndexes(text, 5).String(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestIndexesAreASet compares with a map.
func TestIndexesAreASet(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const below = 30
		is := map[int]bool{}
		var x, y Indexes
		shared := 0
		for i := range below {
			a, b := rng.IntN(2) == 0, rng.IntN(3) == 0
			if a {
				x = x.With(i)
			}
			if b {
				y = y.With(i)
			}
			is[i] = a || b
			if a && b {
				shared++
			}
		}
		u := x.Union(y)
		var missing []int
		for i := range below {
			if u.Has(i) != is[i] {
				t.Fatalf("%v has %d: %v", u, i, u.Has(i))
			}
			if !is[i] && len(missing) < 4 {
				missing = append(missing, i)
			}
		}
		if got := u.Missing(below, 4); !slices.Equal(got, missing) {
			t.Fatalf("%v misses %v, want %v", u, got, missing)
		}
		if x.Shared(y) != shared || fmt.Sprint(ParseIndexes(u.String(), below)) != fmt.Sprint(u) {
			t.Fatalf("%v and %v share %d; %q", x, y, x.Shared(y), u.String())
		}
	}
}
