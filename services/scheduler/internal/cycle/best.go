package cycle

import "container/heap"

// best has the candidate with the highest total on top; equal totals are
// ordered at random, so that pods spread over equal nodes.
type best struct {
	candidates []*candidate
	ties       []int
	// any says that every total may change between two looks, or that there is one look only: then the top is searched for each time,
	// and the rest is in no order. Otherwise it is a heap.
	any bool
}

func newBest(candidates []candidate, any bool, tie func(int) int) *best {
	b := &best{candidates: make([]*candidate, len(candidates)), ties: make([]int, len(candidates)), any: any}
	for i := range candidates {
		b.candidates[i], b.ties[i] = &candidates[i], tie(1<<30)
	}
	b.rank()
	return b
}

func (b *best) empty() bool     { return len(b.candidates) == 0 }
func (b *best) top() *candidate { return b.candidates[0] }

// update finds the top after the totals have changed: that of the top alone, or any. stays is false where the top is no candidate any more.
func (b *best) update(stays bool) {
	switch {
	case b.any:
		if !stays {
			b.Swap(0, len(b.candidates)-1)
			b.Pop()
		}
		b.lift()
	case stays:
		heap.Fix(b, 0)
	default:
		heap.Pop(b)
	}
}

// rank finds the top after any of the totals have changed.
func (b *best) rank() {
	if b.any {
		b.lift()
	} else {
		heap.Init(b)
	}
}

// lift brings the highest to the top.
func (b *best) lift() {
	top := 0
	for i := range b.candidates {
		if b.Less(i, top) {
			top = i
		}
	}
	if len(b.candidates) > 0 {
		b.Swap(0, top)
	}
}

func (b *best) Len() int { return len(b.candidates) }
func (b *best) Less(i, j int) bool {
	if b.candidates[i].total != b.candidates[j].total {
		return b.candidates[i].total > b.candidates[j].total
	}
	return b.ties[i] < b.ties[j]
}

func (b *best) Swap(i, j int) {
	b.candidates[i], b.candidates[j] = b.candidates[j], b.candidates[i]
	b.ties[i], b.ties[j] = b.ties[j], b.ties[i]
}

func (b *best) Push(any) { panic("the candidates only become fewer") }

func (b *best) Pop() any {
	last := len(b.candidates) - 1
	c := b.candidates[last]
	b.candidates, b.ties = b.candidates[:last], b.ties[:last]
	return c
}
