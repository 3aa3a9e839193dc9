package store

import "context"

// ReplayQuery selects changes of the log.
type ReplayQuery struct {
	// Prefix of the keys; empty means all.
	Prefix string
	// The revisions behind After, up to To and to the end of the atomic group that To is in. To must have been reached.
	After, To int64
	// Limit is about the greatest number of changes that are answered at once; 0 leaves it to the store. A group is never split.
	Limit int
	// Previous asks for what the changes replaced. What a deletion removed comes in any case.
	Previous bool
}

// Replay is a piece of the log.
type Replay struct {
	// Changes are what the query selects up to Through, oldest first. Their Origin is not filled in.
	Changes []Change
	// Groups has the revision that ends the atomic group of each change.
	Groups []int64
	// Through is where the piece ends: go on behind it. It never lies inside a group.
	Through int64
	// Compacted is the revision behind which the log is whole. It is filled in beside ErrTooOld too.
	Compacted int64
}

// Replayer reads pieces of the log that have passed.
type Replayer interface {
	// Replay answers the next piece of what the query selects. It fails with ErrTooOld where the log does not hold all that
	// follows After, with ErrFuture where To has not been reached.
	Replay(ctx context.Context, q ReplayQuery) (Replay, error)
}
