// Package store says what the control plane needs of its state: a map of keys to bytes in which every write
// gets the next revision of one cluster-wide count, and a log of those writes that can be followed without a gap.
//
// The rules every implementation keeps (package storetest proves them):
//   - revisions are positive, consecutive and given in commit order: whoever sees revision n can see all below n;
//   - a write is acknowledged only when it survives the crash of the database;
//   - the log hands out each revision once, in order, and a group of writes as a whole;
//   - what the log no longer holds is refused with ErrTooOld, never skipped.
//
// The only exception to "consecutive" is a database that went back in time (a restore, a failover to a replica that
// lagged): the count then jumps far ahead and everything before the jump is too old.
package store

import (
	"context"
	"time"
)

// Op is what a write does to its key.
type Op int8

const (
	// Create requires that the key does not exist.
	Create Op = iota + 1
	// Update replaces the value of an existing key, and compares revisions first unless Write.Revision is 0.
	Update
	// Delete removes an existing key, and compares revisions first unless Write.Revision is 0. With a value it takes two revisions: the log
	// tells of an update to that last state, and of the removal.
	Delete
)

// String names the operation in lower case, as logs and metrics show it.
func (o Op) String() string {
	switch o {
	case Create:
		return "create"
	case Update:
		return "update"
	case Delete:
		return "delete"
	}
	return "unknown"
}

// Fence ties a write to a leadership: it lands only while the epoch is the role's newest one. The zero Fence ties to nothing.
type Fence struct {
	Role  string
	Epoch int64
}

// Write is one change to one key.
type Write struct {
	Op Op
	// Key is opaque to the store, at most 1 KiB of UTF-8 without NUL, and sorts bytewise: /core/pods/default/web-1.
	Key string
	// Value of a Delete is empty, or the last state to tell of. It must not be changed after the call: events share it.
	// The bytes cannot contain the revision (it is given at commit); readers put Entry.Revision in.
	Value []byte
	// Revision is the one the key must still have; 0 accepts any. Create ignores it.
	Revision int64
	// Trace is a W3C traceparent, carried to the event. When empty, the span of the call's context is taken.
	Trace string
	// Actor is who did it, for the history, and Origin how: the verb ("patch", "update/status"), the field manager and the
	// program, separated by tabs.
	Actor, Origin string
	Fence         Fence
}

// Result is the outcome of one write: either Revision or Err is set.
type Result struct {
	// Revision is the write's own: of a deletion too, the second where it takes two.
	Revision int64
	// Previous is the entry that was replaced or removed (not the last state that a Delete tells of); nil after Create. Its Value is filled in only
	// when Write.Revision was 0: otherwise the caller named, hence has, that very revision.
	Previous *Entry
	// Time is the commit's, on the database's clock.
	Time time.Time
	// Err is one of ErrExists, ErrNotFound, *ConflictError, ErrFenced, ErrAborted, ErrUnknownOutcome, ErrUnavailable, ErrInvalid,
	// possibly wrapped.
	Err error
}

// Entry is the state of a key at a revision.
type Entry struct {
	Key   string
	Value []byte
	// Revision is that of the last write to the key, CreateRevision that of the Create which began its present life.
	Revision       int64
	CreateRevision int64
}

// EventType tells a value that was written from a key that went away.
type EventType int8

const (
	// Put says that the key has Value from Revision on.
	Put EventType = iota + 1
	// Removed says that the key is gone from Revision on; Value is nil.
	Removed
)

// Event is one committed write as the log tells it.
type Event struct {
	Type  EventType
	Key   string
	Value []byte
	// Revision is the write's; PreviousRevision the one it replaced (0: the key was created); CreateRevision
	// that of the life's beginning, so Revision == CreateRevision marks a creation.
	Revision         int64
	PreviousRevision int64
	CreateRevision   int64
	Trace            string
	Actor            string
	Time             time.Time
	// Last marks the last event of an atomic group; a lone write is a group of one. A reader that wants to show groups
	// as a whole applies events up to and including Last at once.
	Last bool
}

// Query selects entries for List.
type Query struct {
	// Prefix of the keys; empty means all.
	Prefix string
	// Revision to read at; 0 means now. One that is compacted gives ErrTooOld, one not reached yet ErrFuture.
	Revision int64
	// Limit is the greatest number of entries; 0 means no limit.
	Limit int
	// After is the key behind which the page starts (Page.Next of the page before); empty starts at the front.
	After string
}

// Page is a part of a list, in key order.
type Page struct {
	Entries []Entry
	// Revision at which Entries were true. Give it as Query.Revision to get consistent further pages,
	// or to Tail to follow from exactly there.
	Revision int64
	// Next goes into Query.After for the following page; empty when there is none.
	Next string
}

// Writer changes the store.
type Writer interface {
	// Write commits one change durably and answers its outcome. It waits, as long as ctx lets it, for a
	// place in the queue and for a database that is restarting.
	Write(ctx context.Context, w Write) Result
	// WriteAtomic commits all the changes or none; their keys must be distinct. On success the revisions
	// are consecutive in the order given (a Delete with a value has two). On failure the error is that of the first write that failed for its own sake,
	// every Result has an Err, and the ones that would have succeeded have ErrAborted.
	WriteAtomic(ctx context.Context, ws []Write) ([]Result, error)
}

// Reader reads committed state.
type Reader interface {
	// Get answers the newest entry of key, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// List answers the entries that q selects, all as of one revision.
	List(ctx context.Context, q Query) (Page, error)
	// Revision answers the newest committed revision, read after the call began. Concurrent callers share a round trip.
	Revision(ctx context.Context) (int64, error)
}

// Tailer follows the log.
type Tailer interface {
	// Tail calls deliver with every event after revision from, in order, without gap or repetition, until ctx ends (it then
	// returns ctx's error), deliver fails (it returns that error), or the log no longer holds what comes next
	// (ErrTooOld: list anew and tail from there; everything remembered is void). Lost connections are its own affair.
	// A call of deliver never ends inside an atomic group. Deliver runs on one goroutine at a time; while
	// it runs nothing is lost, only later. It may keep the events but must not change them.
	Tail(ctx context.Context, from int64, deliver func([]Event) error) error
}

// Store is all of it.
type Store interface {
	Writer
	Reader
	Tailer
	Replayer
}
