// Package schedule reads the schedules of CronJobs and finds their starts.
package schedule

import (
	"errors"
	"fmt"
	"time"
	// Time zones must be known in images that have no such files.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// Schedule is when something is to start, again and again.
type Schedule struct{ starts cron.Schedule }

// ErrNever says that a schedule reads well and has no start, as the 31st of February.
var ErrNever = errors.New("time difference between two schedules is less than 1 second")

// Parse reads the five fields of cron, or one of the forms that begin with an @. A leading TZ=zone is the zone that they are meant in;
// otherwise they are meant in that of the time which a start is looked for after.
func Parse(text string) (s Schedule, err error) {
	// The library panics at a time zone with nothing behind it.
	defer func() {
		if problem := recover(); problem != nil {
			s, err = Schedule{}, fmt.Errorf("invalid schedule format: %v", problem)
		}
	}()
	starts, err := cron.ParseStandard(text)
	return Schedule{starts}, err
}

// Next returns the first start after t, or ErrNever.
func (s Schedule) Next(t time.Time) (time.Time, error) {
	next := s.starts.Next(t)
	if next.IsZero() {
		return next, ErrNever
	}
	return next, nil
}

// Latest returns the last start that is after since and not after now; false where there is none.
func (s Schedule) Latest(since, now time.Time) (time.Time, bool) {
	first := s.starts.Next(since)
	if first.IsZero() || first.After(now) {
		return time.Time{}, false
	}
	if every, ok := s.starts.(cron.ConstantDelaySchedule); ok {
		return first.Add(now.Sub(first) / every.Delay * every.Delay), true
	}
	// A start follows early by now and none follows late; they close in on the last one.
	early, late := since, now
	for late.Sub(early) > time.Second {
		middle := early.Add(late.Sub(early) / 2)
		if next := s.starts.Next(middle); next.IsZero() || next.After(now) {
			late = middle
		} else {
			early = middle
		}
	}
	return s.starts.Next(early), true
}

// Exceeds reports whether more than n starts are after since and not after now.
func (s Schedule) Exceeds(n int, since, now time.Time) bool {
	t := since
	for range n + 1 {
		if t = s.starts.Next(t); t.IsZero() || t.After(now) {
			return false
		}
	}
	return true
}
