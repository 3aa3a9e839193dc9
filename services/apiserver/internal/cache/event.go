package cache

import (
	"fmt"
	"time"

	"howdah.dev/services/apiserver/internal/codec"
)

// EventType is what happened to an object.
type EventType uint8

// The types.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// String is the type as a watch shows it.
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	}
	return "DELETED"
}

// Event is one change of one object. It is shared between all watchers.
type Event struct {
	Type EventType
	// Item is the object after the change; for Deleted, its last state at the revision of the deletion.
	Item *codec.Item
	// Previous is the object before the change; nil for Added.
	Previous *codec.Item
	Revision int64
	// Group is the revision of the last change of the same transaction.
	Group int64
	// Trace is the W3C traceparent of the request that made the change.
	Trace string
	at    time.Time
}

// TooOldError says that a revision is not remembered any more.
type TooOldError struct{ Wanted, Oldest int64 }

// Error names both revisions.
func (e *TooOldError) Error() string {
	return fmt.Sprintf("too old resource version: %d (%d)", e.Wanted, e.Oldest)
}

// coolAfter is when what was decoded and encoded for an event is forgotten: by then watchers have had it.
const coolAfter = 5 * time.Second

// Recent events are kept for ringAge, as Kubernetes keeps them, but at least ringMin and at most ringMax of a kind, or as many as
// have ringBytes of stored bytes.
const (
	ringAge   = 75 * time.Second
	ringMin   = 256
	ringMax   = 16384
	ringBytes = 16 << 20
)

// ring holds the recent events of a kind, oldest first.
type ring struct {
	events []*Event
	head   int   // events before it are dropped
	cooled int   // events before it hold nothing but their stored bytes
	since  int64 // every event after this revision is in the ring
	bytes  int   // of the stored objects of its events
}

func (r *ring) reset(revision int64) { *r = ring{since: revision} }

func (r *ring) push(e *Event) {
	r.events = append(r.events, e)
	r.bytes += e.Item.Size()
	r.age(e.at)
}

// age drops what is too old or too much, and lets go of what the rest need not hold in memory.
func (r *ring) age(now time.Time) {
	for n := len(r.events) - r.head; n > ringMax || n > ringMin && (r.bytes > ringBytes || now.Sub(r.events[r.head].at) > ringAge); n-- {
		r.since = r.events[r.head].Revision
		r.bytes -= r.events[r.head].Item.Size()
		r.events[r.head] = nil
		r.head++
	}
	for r.cooled = max(r.cooled, r.head); r.cooled < len(r.events) && now.Sub(r.events[r.cooled].at) > coolAfter; r.cooled++ {
		e := r.events[r.cooled]
		e.Item.Rest() // it may be the newest still
		if e.Previous != nil {
			e.Previous.Trim()
		}
	}
	if r.head > 1024 && r.head > len(r.events)/2 {
		r.events = append([]*Event(nil), r.events[r.head:]...)
		r.cooled -= r.head
		r.head = 0
	}
}

// after returns the events behind a revision, oldest first.
func (r *ring) after(revision int64) ([]*Event, error) {
	if revision < r.since {
		return nil, &TooOldError{Wanted: revision, Oldest: r.since}
	}
	events := r.events[r.head:]
	low, high := 0, len(events)
	for low < high {
		if mid := (low + high) / 2; events[mid].Revision <= revision {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return events[low:], nil
}
