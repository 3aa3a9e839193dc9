package store

import (
	"context"
	"time"
)

// HistoryQuery selects versions of one key.
type HistoryQuery struct {
	Key string
	// Before ends the selection: only versions below this revision; 0 selects up to the newest.
	Before int64
	// Since begins it; the zero time selects from where the log begins.
	Since time.Time
	// Limit is the greatest number of versions, the newest ones; 0 means no limit but the log's own.
	Limit int
}

// Change is one version of a key, as the log tells it.
type Change struct {
	// Event is the write; after a deletion its Value is nil.
	Event
	// Origin is the write's own.
	Origin string
	// Previous is what the write replaced or removed; nil where it created the key.
	Previous *Entry
}

// Versions are what the log holds of one key.
type Versions struct {
	// Changes, the newest first.
	Changes []Change
	// More says that there are older changes than the limit let through.
	More bool
	// Base is the state of the key from before all of its changes that the log holds; nil where it did not exist then. It does not
	// depend on the query.
	Base *Entry
	// Revision is the newest one, Compacted the oldest at which states can be read. Oldest is the time of the first change
	// that is kept; zero where there is none.
	Revision, Compacted int64
	Oldest              time.Time
}

// Historian reads the past.
type Historian interface {
	// History answers the versions of a key, of all its lives.
	History(ctx context.Context, q HistoryQuery) (Versions, error)
	// RevisionAt answers the newest revision that was committed at a moment: ErrTooOld where the log begins later, ErrFuture where the
	// moment has not come.
	RevisionAt(ctx context.Context, at time.Time) (int64, error)
}
