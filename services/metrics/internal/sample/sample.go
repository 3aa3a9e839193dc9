// Package sample tells from two measurements of a counter what is used: pure functions, and what is known of a node.
package sample

import "time"

// Reading is one measurement of a node or a container.
type Reading struct {
	// Time is when it was measured, by the node's clock.
	Time time.Time
	// CPU is how many seconds of processors were used since the start.
	CPU float64
	// Memory is the working set, in bytes.
	Memory uint64
	// Started is when a container started; zero for nodes, and where it is not told.
	Started time.Time
}

// Usage is what is used.
type Usage struct {
	// Time is when it was measured, and Window the time before that over which CPU is an average.
	Time   time.Time
	Window time.Duration
	// CPU is in processors, Memory in bytes.
	CPU    float64
	Memory uint64
}

// Of a container that was measured once, what it has used since its start is told, if that is not so short ago that it says nothing and not so long
// that it says nothing about now.
const (
	youngest = 10 * time.Second
	oldest   = time.Minute
)

// Series is the last two readings of one thing; the zero value has none.
type Series struct{ before, last Reading }

// Next returns the series with a reading more. One that was not measured anew changes nothing, and one of a container that has started again begins a
// series.
func (s Series) Next(r Reading) Series {
	switch {
	case !r.Time.After(s.last.Time):
		return s
	case r.CPU < s.last.CPU || r.Started.After(s.last.Time):
		return Series{last: r}
	}
	return Series{before: s.last, last: r}
}

// Usage returns what is used; false where it takes another reading to tell.
func (s Series) Usage() (Usage, bool) {
	before := s.before
	if before.Time.IsZero() {
		age := s.last.Time.Sub(s.last.Started)
		if s.last.Started.IsZero() || age < youngest || age > oldest {
			return Usage{}, false
		}
		before = Reading{Time: s.last.Started}
	}
	window := s.last.Time.Sub(before.Time)
	return Usage{Time: s.last.Time, Window: window, CPU: (s.last.CPU - before.CPU) / window.Seconds(), Memory: s.last.Memory}, true
}
