package store

import (
	"errors"
	"fmt"
)

var (
	// ErrExists answers a Create of a key that is there.
	ErrExists = errors.New("key exists")
	// ErrNotFound answers an Update, Delete or Get of a key that is not there.
	ErrNotFound = errors.New("key not found")
	// ErrFenced answers a write whose leadership has passed on to another.
	ErrFenced = errors.New("leadership has passed on")
	// ErrAborted answers a write that was fine itself but belonged to a group of which another write failed.
	ErrAborted = errors.New("another write of the group failed")
	// ErrUnknownOutcome answers a write whose connection was lost while it committed: it may or may not have
	// happened. Retrying is right for whoever compares revisions.
	ErrUnknownOutcome = errors.New("outcome of the write is unknown")
	// ErrUnavailable answers when the database could not be reached in time; nothing was written. Retriable.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrFull answers a write for which the database has no room on its disk; nothing was written, and nothing will be until somebody makes room.
	ErrFull = errors.New("the database has no space left on its disk")
	// ErrOverQuota answers a write for which the database's quota leaves no room; nothing was written. Deletions make room.
	ErrOverQuota = errors.New("the database is over its quota")
	// ErrTooOld answers a read or a tail at a revision that has been compacted away.
	ErrTooOld = errors.New("revision is compacted")
	// ErrFuture answers a read at a revision that has not been reached.
	ErrFuture = errors.New("revision is not reached yet")
	// ErrInvalid answers a write that no state of the store would accept: a malformed key, an unknown operation, a group that
	// names a key twice or has too many writes.
	ErrInvalid = errors.New("invalid write")
)

// ConflictError answers an Update or Delete whose expected revision is not the key's.
type ConflictError struct {
	// Current is the revision the key has.
	Current int64
}

// Error says which revision the key has.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("key is at revision %d", e.Current)
}

// Retriable tells whether the same call may succeed when it is simply made again. After ErrUnknownOutcome
// it may also find its own earlier effect.
func Retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome)
}
