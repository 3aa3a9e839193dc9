package flow

import (
	"time"

	"howdah.dev/services/apiserver/internal/flow/fair"
)

// These are Kubernetes' own measures.
const (
	// listWidth and writeWidth are the most seats that one list, and the events of one write, take.
	listWidth  = 100
	writeWidth = 10
	// watchesPerSeat is of how many watches an event keeps a seat busy, for eventTime.
	watchesPerSeat = 10
	eventTime      = 5 * time.Millisecond
	// shareOfLevel is how much of a level's nominal seats one request may take.
	shareOfLevel = 0.15
)

// estimate is the work of a request that wants so many seats while it runs, and tells so many watches of what it has done. most is what its level
// lets one request have; 0 is no bound.
//
// The work of the events is seats times time. Where it is too wide it lasts the longer.
func estimate(seats, watches, most int) fair.Work {
	bound := func(limit int) int {
		if most > 0 {
			return min(most, limit)
		}
		return limit
	}
	work := fair.Work{Seats: min(max(seats, 1), bound(listWidth))}
	if watches < watchesPerSeat {
		return work
	}
	wide := (watches + watchesPerSeat - 1) / watchesPerSeat
	work.Final = min(wide, bound(writeWidth))
	work.Linger = time.Duration(wide) * eventTime / time.Duration(work.Final)
	return work
}
