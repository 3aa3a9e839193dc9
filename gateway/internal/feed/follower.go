package feed

import "sync/atomic"

// Follower is one who follows a feed, from where it stood then. What comes waits until it is taken. Its methods but Revision and
// Interrupt are for one goroutine.
type Follower struct {
	feed      *feed
	at        atomic.Pointer[piece] // the one that was taken last; nil: cut off
	seen      int64                 // revision up to which it has everything
	bookmarks bool
	from      int64
	counted   bool // it is among those who are told
	signal    chan struct{}
}

// followFrom returns a follower of what comes from now on, or nil where the feed is over.
func (f *feed) followFrom(bookmarks bool) *Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	w := &Follower{feed: f, bookmarks: bookmarks, from: f.revision, signal: make(chan struct{}, 1)}
	w.at.Store(f.tail)
	f.followed[w] = struct{}{}
	return w
}

func (w *Follower) stop() {
	f := w.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.followed, w)
	if w.counted {
		w.counted = false
		f.set.metrics.followers.Dec()
	}
}

// From is the revision behind which the follower has everything.
func (w *Follower) From() int64 { return w.from }

// Revision is the one up to which the feed has told everything.
func (w *Follower) Revision() int64 {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	return w.feed.revision
}

// Join begins the taking: the follower has had everything up to a revision, which is From or later, from elsewhere.
func (w *Follower) Join(revision int64) {
	w.seen = revision
	if !w.counted {
		w.counted = true
		w.feed.set.metrics.followers.Inc()
	}
}

// Ready fires when Take has something, after Join at the earliest; now and then it fires for nothing.
func (w *Follower) Ready() <-chan struct{} { return w.signal }

// Interrupt lets Ready fire. Anybody may call it.
func (w *Follower) Interrupt() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// wake reports whether it had to be woken.
func (w *Follower) wake() bool {
	if at := w.at.Load(); at != nil && at.next.Load() == nil {
		return false // it has taken everything meanwhile
	}
	select {
	case w.signal <- struct{}{}:
		return true
	default:
		return false
	}
}

// Take adds the frames that have come to a list, and reports whether the follower has had its last: the feed is over, or the follower
// was cut off because it did not keep up. Nobody may change the frames.
func (w *Follower) Take(frames [][]byte) (_ [][]byte, over bool) {
	told := 0
	defer func() { w.feed.set.metrics.sent.Add(float64(told)) }()
	for {
		at := w.at.Load()
		if at == nil {
			return frames, true
		}
		p := at.next.Load()
		if p == nil {
			return frames, false
		}
		if !w.at.CompareAndSwap(at, p) {
			return frames, true // what it has not taken is gone
		}
		if p.end {
			return frames, true
		}
		if p.bookmark && (!w.bookmarks || p.last <= w.seen) {
			w.seen = max(w.seen, p.last)
			continue
		}
		if b, n := p.behind(w.seen); len(b) > 0 {
			frames = append(frames, b)
			if !p.bookmark {
				told += n
			}
		}
		w.seen = max(w.seen, p.last)
	}
}
