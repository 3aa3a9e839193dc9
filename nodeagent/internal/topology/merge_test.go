package topology

import (
	"math/rand/v2"
	"testing"
)

func TestMerge(t *testing.T) {
	two := Of(0, 1)
	either := []Hint{{Of(0), true}, {Of(1), true}, {two, false}}
	both := []Hint{{two, true}}
	for name, c := range map[string]struct {
		policy Policy
		hints  []Hints
		want   Hint
		admit  bool
	}{
		"nobody cares":                      {Restricted, []Hints{{}, nil}, Hint{two, true}, true},
		"nobody cares for a single node":    {SingleNode, nil, Hint{0, true}, true},
		"no policy asks nothing":            {None, []Hints{{"cpu": {}}}, Hint{0, true}, true},
		"the same node":                     {SingleNode, []Hints{{"gpu": {{Of(1), true}}}, {"cpu": either}}, Hint{Of(1), true}, true},
		"the lowest of two alike":           {Restricted, []Hints{{"cpu": either}}, Hint{Of(0), true}, true},
		"different nodes, best effort":      {BestEffort, []Hints{{"gpu": {{Of(1), true}}, "nic": {{Of(0), true}, {two, false}}}}, Hint{Of(1), false}, true},
		"different nodes, restricted":       {Restricted, []Hints{{"gpu": {{Of(1), true}}, "nic": {{Of(0), true}}}}, Hint{two, false}, false},
		"different nodes, single":           {SingleNode, []Hints{{"gpu": {{Of(1), true}}, "nic": {{Of(0), true}}}}, Hint{0, false}, false},
		"cannot be had":                     {Restricted, []Hints{{"gpu": {}}}, Hint{two, false}, false},
		"cannot be had, best effort":        {BestEffort, []Hints{{"gpu": {}}, {"cpu": {{Of(1), true}}}}, Hint{Of(1), false}, true},
		"two nodes are needed":              {Restricted, []Hints{{"cpu": both}}, Hint{two, true}, true},
		"two nodes are needed, single":      {SingleNode, []Hints{{"cpu": both}}, Hint{0, false}, false},
		"a wide way is not preferred":       {Restricted, []Hints{{"cpu": {{two, false}}}}, Hint{two, false}, false},
		"as wide as the widest need":        {BestEffort, []Hints{{"cpu": {{two, false}}}, {"gpu": {{Of(0), false}, {two, false}}}}, Hint{two, false}, true},
		"a preferred way goes before all":   {BestEffort, []Hints{{"cpu": {{Of(0), false}, {two, true}}}}, Hint{two, true}, true},
		"preferred only on the very same":   {Restricted, []Hints{{"cpu": {{two, true}}}, {"gpu": {{Of(0), true}}}}, Hint{Of(0), false}, false},
		"who does not care changes nothing": {SingleNode, []Hints{{"x": {{0, true}}}, {"cpu": either}}, Hint{Of(0), true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, admit := Merger{Policy: c.policy, Nodes: two}.Merge(c.hints)
			if got != c.want || admit != c.admit {
				t.Errorf("%+v admitted=%t, want %+v %t", got, admit, c.want, c.admit)
			}
		})
	}
}

func TestMergeTakesTheClosest(t *testing.T) {
	m := Merger{Policy: BestEffort, Nodes: Of(0, 1, 2, 3), Apart: func(s Mask) float64 {
		if s == Of(2, 3) {
			return 11
		}
		return 20
	}}
	hints := Hinter(m.Nodes, func(s Mask) bool { return s.Count() >= 2 }, func(s Mask) bool { return s.Count() >= 2 })
	if got, _ := m.Merge([]Hints{{"cpu": hints}}); got != (Hint{Of(2, 3), true}) {
		t.Errorf("%+v", got)
	}
}

// TestMergeIsWhatAllWaysComeTo compares with looking at every combination.
func TestMergeIsWhatAllWaysComeTo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		m := Merger{Policy: BestEffort, Nodes: Of(0, 1, 2)}
		all := Hints{}
		for _, name := range []string{"a", "b", "c"}[:1+random.IntN(3)] {
			for range random.IntN(4) {
				all[name] = append(all[name], Hint{Mask(random.IntN(8)), random.IntN(2) == 0})
			}
		}
		got, _ := m.Merge([]Hints{all})
		preferred := false
		var walk func(left [][]Hint, taken []Hint)
		walk = func(left [][]Hint, taken []Hint) {
			if len(left) > 0 {
				for _, h := range left[0] {
					walk(left[1:], append(taken[:len(taken):len(taken)], h))
				}
				return
			}
			nodes, same, fits := m.Nodes, Mask(0), true
			for _, h := range taken {
				fits = fits && h.Preferred
				if h.Nodes != 0 {
					nodes &= h.Nodes
					fits = fits && (same == 0 || same == h.Nodes)
					same = h.Nodes
				}
			}
			preferred = preferred || fits && nodes != 0
		}
		walk(m.lists([]Hints{all}), nil)
		if got.Preferred != preferred || got.Nodes == 0 {
			t.Fatalf("%v: %+v, and some way is preferred: %t", all, got, preferred)
		}
	}
}

func TestHinter(t *testing.T) {
	left := map[Mask]int{Of(0): 1, Of(1): 3}
	count := func(s Mask) (n int) {
		for _, node := range s.Nodes() {
			n += left[Of(node)]
		}
		return n
	}
	got := Hinter(Of(0, 1), func(s Mask) bool { return s.Count()*4 >= 2 }, func(s Mask) bool { return count(s) >= 2 })
	want := []Hint{{Of(0, 1), false}, {Of(1), true}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}
