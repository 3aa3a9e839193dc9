package flow

import "math"

// claim is what one priority level may have, needs and gets, in seats.
type claim struct {
	// least and most bound what it gets: what it does not lend, and what it may borrow at most.
	least, nominal, most float64
	// demand is the smoothed number of seats that its requests want.
	demand float64
}

// share divides the seats: every level gets what its requests want, up to its nominal share at once, and what is left goes to those that
// want more in proportion to what they want. The fraction is that proportion, as Kubernetes' seat_fair_frac.
func share(total float64, claims []claim) (seats []float64, fraction float64) {
	lower, target := make([]float64, len(claims)), make([]float64, len(claims))
	sum := 0.0
	for i, c := range claims {
		lower[i] = math.Max(c.least, math.Min(c.nominal, c.demand))
		target[i] = math.Max(c.least, c.demand)
		sum += lower[i]
	}
	at := func(f float64) (out []float64, sum float64) {
		out = make([]float64, len(claims))
		for i, c := range claims {
			out[i] = math.Max(lower[i], math.Min(c.most, f*target[i]))
			sum += out[i]
		}
		return out, sum
	}
	if sum >= total {
		// Rounded up shares may exceed the whole by a few.
		return lower, 1
	}
	low, high := 0.0, 1.0
	for _, c := range claims {
		if c.nominal > 0 || c.demand > 0 {
			high = math.Max(high, total/math.Max(math.Max(c.least, c.demand), 1))
		}
	}
	seats, most := at(high)
	if most <= total {
		return seats, high
	}
	for range 60 {
		middle := (low + high) / 2
		if _, sum := at(middle); sum > total {
			high = middle
		} else {
			low = middle
		}
	}
	seats, _ = at(low)
	return seats, low
}
