package cycle

import "container/heap"

// best is a heap of candidates, the highest total on top; equal totals are
// ordered at random, so that pods spread over equal nodes.
type best struct {
	candidates []*candidate
	order      []int
}

// newHeap returns the heap for so many placements; for a single one only its
// top is in order.
func newHeap(candidates []candidate, placements int, tie func(int) int) *best {
	b := &best{candidates: make([]*candidate, len(candidates)), order: make([]int, len(candidates))}
	for i := range candidates {
		b.candidates[i], b.order[i] = &candidates[i], tie(1<<30)
	}
	if placements > 1 {
		heap.Init(b)
		return b
	}
	top := 0
	for i := range b.candidates {
		if b.Less(i, top) {
			top = i
		}
	}
	b.Swap(0, top)
	return b
}

func (b *best) empty() bool     { return len(b.candidates) == 0 }
func (b *best) top() *candidate { return b.candidates[0] }
func (b *best) fixTop()         { heap.Fix(b, 0) }
func (b *best) removeTop()      { heap.Pop(b) }

func (b *best) Len() int { return len(b.candidates) }
func (b *best) Less(i, j int) bool {
	if b.candidates[i].total != b.candidates[j].total {
		return b.candidates[i].total > b.candidates[j].total
	}
	return b.order[i] < b.order[j]
}

func (b *best) Swap(i, j int) {
	b.candidates[i], b.candidates[j] = b.candidates[j], b.candidates[i]
	b.order[i], b.order[j] = b.order[j], b.order[i]
}

func (b *best) Push(any) { panic("the heap only shrinks") }

func (b *best) Pop() any {
	last := len(b.candidates) - 1
	c := b.candidates[last]
	b.candidates, b.order = b.candidates[:last], b.order[:last]
	return c
}
