package queue

import "container/heap"

// entry is what can be in one heap at a time and knows its place there.
type entry interface{ place() *int }

// ordered is a heap from which entries can also be taken out of the middle.
// An entry's place is -1 while it is in none; entries start with outside.
type ordered[E entry] struct {
	entries []E
	before  func(a, b E) bool
}

const outside = -1

func (h *ordered[E]) add(e E)     { heap.Push((*heaped[E])(h), e) }
func (h *ordered[E]) first() E    { return h.entries[0] }
func (h *ordered[E]) empty() bool { return len(h.entries) == 0 }

// remove takes e out, if it is in.
func (h *ordered[E]) remove(e E) {
	if i := *e.place(); i != outside {
		heap.Remove((*heaped[E])(h), i)
	}
}

// fix restores the order after e, which must be in, has changed.
func (h *ordered[E]) fix(e E) { heap.Fix((*heaped[E])(h), *e.place()) }

// heaped is an ordered as container/heap wants to see it.
type heaped[E entry] ordered[E]

func (h *heaped[E]) Len() int           { return len(h.entries) }
func (h *heaped[E]) Less(i, j int) bool { return h.before(h.entries[i], h.entries[j]) }

func (h *heaped[E]) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	*h.entries[i].place(), *h.entries[j].place() = i, j
}

func (h *heaped[E]) Push(e any) {
	*e.(E).place() = len(h.entries)
	h.entries = append(h.entries, e.(E))
}

func (h *heaped[E]) Pop() any {
	var none E
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = none
	h.entries = h.entries[:last]
	*e.place() = outside
	return e
}
