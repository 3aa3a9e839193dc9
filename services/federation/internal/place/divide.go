package place

import (
	"cmp"
	"math/bits"
	"slices"
)

// Part is a cluster among those that replicas are divided over.
type Part struct {
	Name   string
	Weight int64
	// Room is how many replicas fit beside those that it has, and Has how many these are.
	Room, Has int64
}

// ByWeight divides by weights: each part has the whole number below its exact share, or above it; the largest remainders are above. Of equal ones those that
// have more already come first, so that nothing moves for its own sake.
func ByWeight(total int64, parts []Part) []int64 {
	weights := make([]int64, len(parts))
	for i, p := range parts {
		weights[i] = p.Weight
	}
	return largestRemainder(total, weights, parts)
}

// ByRoom keeps what is placed. What there is more goes where room is, in proportion to it; what there is less goes from each in proportion to what it has.
func ByRoom(total int64, parts []Part) []int64 {
	shares := make([]int64, len(parts))
	room := make([]int64, len(parts))
	placed, free := int64(0), int64(0)
	for i, p := range parts {
		shares[i], room[i] = p.Has, max(p.Room, 0)
		placed += p.Has
		free += room[i]
	}
	switch more := total - placed; {
	case more < 0:
		return largestRemainder(total, shares, parts)
	case more > 0 && free >= more:
		for i, n := range largestRemainder(more, room, parts) {
			shares[i] += n
		}
	case more > 0: // all that fits, and the rest waits in equal numbers
		equal := make([]int64, len(parts))
		for i := range equal {
			shares[i] += room[i]
			equal[i] = 1
		}
		for i, n := range largestRemainder(more-free, equal, parts) {
			shares[i] += n
		}
	}
	return shares
}

// largestRemainder divides total by weights, which sum up to it: but for no parts at all. Weights that are all zero are all the same.
func largestRemainder(total int64, weights []int64, parts []Part) []int64 {
	shares := make([]int64, len(weights))
	if len(shares) == 0 || total <= 0 {
		return shares
	}
	sum := int64(0)
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		weights = slices.Repeat([]int64{1}, len(weights))
		sum = int64(len(weights))
	}
	order, remainders, left := make([]int, len(weights)), make([]uint64, len(weights)), total
	for i, w := range weights {
		high, low := bits.Mul64(uint64(total), uint64(w)) // of numbers that are large together, as rooms are
		whole, remainder := bits.Div64(high, low, uint64(sum))
		shares[i], remainders[i], order[i] = int64(whole), remainder, i
		left -= int64(whole)
	}
	slices.SortFunc(order, func(a, b int) int {
		above := func(i int) int { // one that has more than the whole number has it already
			if parts[i].Has > shares[i] {
				return 0
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(remainders[a], remainders[b]), cmp.Compare(above(a), above(b)), -cmp.Compare(parts[a].Has, parts[b].Has), cmp.Compare(parts[a].Name, parts[b].Name))
	})
	for _, i := range order[:left] {
		shares[i]++
	}
	return shares
}
