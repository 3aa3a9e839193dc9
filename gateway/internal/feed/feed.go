package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// feed is one watch at an API server and those who share it.
type feed struct {
	set     *Set
	key     key
	frame   Frame // set before started is closed
	started chan struct{}
	over    chan struct{} // closed when it is over, with or without a start

	users int         // who share it or wait to; under set.mu
	idle  *time.Timer // ends it; runs while nobody shares it; under set.mu
	end   context.CancelFunc

	mu       sync.Mutex
	followed map[*Follower]struct{}
	tail     *piece
	changed  chan struct{} // full when the tail has moved since it was looked at
	revision int64         // everything up to it has been told
	ended    bool
	looked   piece // where the tail stood when the slow were last looked for: its counts
}

// year is longer than any feed is let stand.
const year = 365 * 24 * time.Hour

// maxWait bounds the pause between two attempts to go on.
const maxWait = 2 * time.Second

// errOver ends a feed: what it failed with stays so.
var errOver = errors.New("the feed is over")

// expiredError is an ERROR event, which ends a watch.
type expiredError struct{ event *apiv1.WatchEvent }

func (expiredError) Error() string { return "the watch failed" }

// run keeps the feed going until ctx ends or it cannot go on. API servers come and go: it resumes behind what it has told.
func (f *feed) run(ctx context.Context) {
	defer f.finish()
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: maxWait}
	next, last, refused := backoff, time.Now(), false
	for {
		told, err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if told {
			next, last = backoff, time.Now()
		}
		var expired expiredError
		switch failed := errors.As(err, &expired); {
		case failed && refused && !told: // twice in a row: it is for those who watch to know
			f.publish(&piece{frames: f.frame(nil, "ERROR", expired.event.GetObject())})
			return
		case failed:
			refused = true
		default:
			refused = false
		}
		if errors.Is(err, errOver) || time.Since(last) > f.set.patience {
			slog.WarnContext(ctx, "end a shared watch", "resource", f.key.resource, "err", err)
			return
		}
		f.set.metrics.resumed.Inc()
		timer := time.NewTimer(next.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// follow watches until the watch ends, and reports whether it told anything.
func (f *feed) follow(ctx context.Context) (told bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.set.client.Watch(speakingForItself(ctx), f.request())
	if err != nil {
		return false, lasting(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return told, lasting(err)
		}
		if f.frame == nil {
			f.frame = f.set.framer(response.GetContentType())
		}
		if through := response.GetThrough(); through > 0 {
			f.start(through)
			told = true
		}
		if len(response.GetEvents()) == 0 {
			continue
		}
		if !f.hasStarted() {
			return told, fmt.Errorf("%w: the API server does not serve feeds", errOver)
		}
		p, failure := f.frames(response.GetEvents())
		if p != nil {
			told = true
			f.publish(p)
		}
		if failure != nil {
			return told, failure
		}
	}
}

// request asks for what follows the events that the feed has told, or from now on.
func (f *feed) request() *apiv1.WatchRequest {
	r := f.key.request()
	r.Feed, r.AllowWatchBookmarks, r.TimeoutSeconds = true, true, int64(year/time.Second)
	if f.hasStarted() {
		r.ResourceVersion = strconv.FormatInt(f.revision, 10) // only this goroutine changes it
	} else {
		r.SendInitialEvents, r.ResourceVersionMatch = "false", "NotOlderThan"
	}
	return r
}

// lasting marks errors that another attempt would meet again.
func lasting(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	switch status := apistatus.Of(apistatus.FromGRPC(err)); status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusGone:
		return fmt.Errorf("%w: %w", errOver, err)
	}
	return err
}

func (f *feed) hasStarted() bool {
	select {
	case <-f.started:
		return true
	default:
		return false
	}
}

// start makes the feed one that can be followed, from a revision on.
func (f *feed) start(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision = max(f.revision, revision); f.tail == nil {
		f.tail = &piece{last: revision}
		close(f.started)
	}
}

// frames makes a piece of what came in one response; its events that were told before are left out. nil: nothing is left. An
// ERROR among them is the failure.
func (f *feed) frames(events []*apiv1.WatchEvent) (*piece, error) {
	size := 0
	for _, e := range events {
		size += len(e.GetObject()) + len(e.GetType()) + 40
	}
	p := &piece{frames: make([]byte, 0, size)}
	for _, e := range events {
		if e.GetType() == "ERROR" {
			return p.orNil(), expiredError{e}
		}
		if e.GetRevision() <= f.revision {
			continue
		}
		p.bookmark = e.GetType() == "BOOKMARK"
		p.frames = f.frame(p.frames, e.GetType(), e.GetObject())
		p.ends = append(p.ends, len(p.frames))
		p.revisions = append(p.revisions, e.GetRevision())
		p.last = e.GetRevision()
	}
	return p.orNil(), nil
}

// publish adds a piece.
func (f *feed) publish(p *piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.append(p)
	if !p.bookmark {
		f.set.metrics.received.Add(float64(len(p.ends)))
	}
	if f.tail.count-f.looked.count >= lookEvery || f.tail.bytes-f.looked.bytes >= lookBytes {
		f.dropSlow()
	}
}

func (f *feed) append(p *piece) {
	last := f.tail
	p.count, p.bytes = last.count+max(len(p.ends), 1), last.bytes+len(p.frames)
	f.revision = max(f.revision, p.last)
	last.next.Store(p)
	f.tail = p
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// atOnce is how many followers are woken before others have their turn.
const atOnce = 32

// wake tells the followers of what has come, until ctx ends or the feed is over. A thousand that were woken at once would stand in the
// scheduler's queue before everything else the process does, as the next write. So they are woken in small groups; and what comes while
// that goes on, those who wait still get in the same turn.
func (f *feed) wake(ctx context.Context) {
	var all []*Follower
	for {
		select {
		case <-f.changed:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		for w := range f.followed {
			all = append(all, w)
		}
		f.mu.Unlock()
		woken := 0
		for _, w := range all {
			if !w.wake() {
				continue
			}
			if woken++; woken%atOnce == 0 {
				runtime.Gosched()
			}
		}
		clear(all)
		all = all[:0]
	}
}

// dropSlow lets go of those who have left too much unread: they would keep it in memory.
func (f *feed) dropSlow() {
	f.looked = piece{count: f.tail.count, bytes: f.tail.bytes}
	for w := range f.followed {
		at := w.at.Load()
		if at == nil || f.tail.count-at.count <= f.set.maxEvents && f.tail.bytes-at.bytes <= f.set.maxBytes {
			continue
		}
		if w.at.CompareAndSwap(at, nil) {
			f.set.metrics.slow.Inc()
		}
	}
}

// finish ends it for all who share it.
func (f *feed) finish() {
	f.set.forget(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.tail != nil {
		f.append(&piece{end: true})
	}
	for w := range f.followed {
		w.wake()
	}
	close(f.over)
}
