package feed

import "sync/atomic"

// piece is what came at a time: whole transactions. Pieces form a list, of which each follower holds the one that it has had last; what
// all have had is nobody's, and goes.
type piece struct {
	next atomic.Pointer[piece]

	frames    []byte  // of all its events
	ends      []int   // where each event's frame ends
	revisions []int64 // of each event, growing
	last      int64   // revision of the last event
	bookmark  bool    // it is one bookmark
	end       bool    // the feed is over

	count, bytes int // events and bytes of all pieces so far
}

// orNil returns nil for a piece without events.
func (p *piece) orNil() *piece {
	if len(p.ends) == 0 {
		return nil
	}
	return p
}

// behind returns the frames of the events behind a revision, and their number.
func (p *piece) behind(revision int64) ([]byte, int) {
	if len(p.ends) == 0 { // an error, which all are told
		return p.frames, 0
	}
	skip, from := 0, 0
	for skip < len(p.ends) && p.revisions[skip] <= revision {
		from = p.ends[skip]
		skip++
	}
	return p.frames[from:], len(p.ends) - skip
}
