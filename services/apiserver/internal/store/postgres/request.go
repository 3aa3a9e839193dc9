package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"howdah.dev/services/apiserver/internal/store"
)

// A request is queued until either the committer takes it or its caller abandons it.
const (
	queued int32 = iota
	taken
	abandoned
)

// request is one call of Write or WriteAtomic on its way through the queue.
type request struct {
	writes []store.Write
	atomic bool
	bytes  int64
	span   trace.Span
	since  time.Time
	state  atomic.Int32
	// results belong to the committer until done is closed.
	results []store.Result
	done    chan struct{}
}

func (r *request) claim() bool { return r.state.CompareAndSwap(queued, taken) }

func (r *request) fail(err error) {
	for i := range r.results {
		r.results[i] = store.Result{Err: err}
	}
	close(r.done)
}

// Write implements store.Writer.
func (s *Store) Write(ctx context.Context, w store.Write) store.Result {
	results := s.submit(ctx, []store.Write{w}, false)
	return results[0]
}

// WriteAtomic implements store.Writer.
func (s *Store) WriteAtomic(ctx context.Context, ws []store.Write) ([]store.Result, error) {
	if len(ws) == 0 {
		return nil, nil
	}
	// The caller's slice is not ours to fill in.
	results := s.submit(ctx, append([]store.Write(nil), ws...), len(ws) > 1)
	return results, groupError(results)
}

// groupError is the first error that is not the consequence of another.
func groupError(results []store.Result) error {
	var aborted error
	for _, r := range results {
		switch r.Err {
		case nil:
		case store.ErrAborted:
			aborted = r.Err
		default:
			return r.Err
		}
	}
	return aborted
}

// submit queues the writes, waits for their outcome and answers a result for each.
func (s *Store) submit(ctx context.Context, ws []store.Write, group bool) (results []store.Result) {
	r := &request{writes: ws, atomic: group, results: make([]store.Result, len(ws)), done: make(chan struct{}), since: time.Now()}
	err := prepare(ctx, r)
	if err == nil && !store.Exempted(ctx) {
		err = s.scarcity().admits(ws)
	}
	if err != nil {
		r.fail(err)
		return r.results
	}
	ctx, r.span = s.startWriteSpan(ctx, ws)
	defer func() { endWriteSpan(r.span, results) }() // the request's own are the committer's still where the caller waits no longer
	weight := min(r.bytes, s.cfg.QueueBytes)
	if err := s.bytes.Acquire(ctx, weight); err != nil {
		r.fail(unavailable(ctx))
		return r.results
	}
	defer s.bytes.Release(weight)
	s.metrics.queue.Inc()
	defer s.metrics.queue.Dec()
	select {
	case s.queue <- r:
	case <-ctx.Done():
		r.fail(unavailable(ctx))
		return r.results
	case <-s.ended:
		r.fail(fmt.Errorf("%w: it has been stopped", store.ErrUnavailable))
		return r.results
	}
	select {
	case <-r.done:
		return r.results
	case <-s.ended:
		return s.gaveUp(r, fmt.Errorf("%w: it has been stopped", store.ErrUnavailable), fmt.Errorf("%w: it has been stopped", store.ErrUnknownOutcome))
	case <-ctx.Done():
		return s.gaveUp(r, unavailable(ctx), fmt.Errorf("%w: the caller stopped waiting: %w", store.ErrUnknownOutcome, context.Cause(ctx)))
	}
}

// gaveUp answers for a caller that waits no longer: nothing was written when the committer has not taken the request yet,
// and otherwise nobody knows.
func (s *Store) gaveUp(r *request, unwritten, unknown error) []store.Result {
	results := make([]store.Result, len(r.writes))
	err := unwritten
	if !r.state.CompareAndSwap(queued, abandoned) {
		select {
		case <-r.done: // just in time
			return r.results
		default:
			err = unknown
		}
	}
	for i := range results {
		results[i].Err = err
	}
	return results
}

func unavailable(ctx context.Context) error {
	return fmt.Errorf("%w: waiting for a commit: %w", store.ErrUnavailable, context.Cause(ctx))
}

// prepare refuses writes that would fail whatever the state, so that they cannot spoil the batch they would ride in.
func prepare(ctx context.Context, r *request) error {
	if len(r.writes) > maxGroup {
		return fmt.Errorf("%w: %d writes in a group, at most %d are possible", store.ErrInvalid, len(r.writes), maxGroup)
	}
	traceparent := ""
	for i := range r.writes {
		w := &r.writes[i]
		switch {
		case w.Op < store.Create || w.Op > store.Delete:
			return fmt.Errorf("%w: operation %d", store.ErrInvalid, w.Op)
		case w.Key == "" || len(w.Key) > maxKey || !utf8.ValidString(w.Key) || strings.IndexByte(w.Key, 0) >= 0:
			return fmt.Errorf("%w: a key is 1 to %d bytes of UTF-8 without NUL", store.ErrInvalid, maxKey)
		case len(w.Value) > maxValue:
			return fmt.Errorf("%w: value of %d bytes, at most %d are possible", store.ErrInvalid, len(w.Value), maxValue)
		case w.Revision < 0:
			return fmt.Errorf("%w: expected revision %d", store.ErrInvalid, w.Revision)
		}
		if w.Trace == "" {
			if traceparent == "" {
				traceparent = traceparentOf(ctx)
			}
			w.Trace = traceparent
		}
		w.Trace, w.Actor, w.Fence.Role = text(w.Trace), text(w.Actor), text(w.Fence.Role)
		r.bytes += int64(len(w.Value) + len(w.Key) + 128)
	}
	if len(r.writes) > 1 {
		keys := make(map[string]struct{}, len(r.writes))
		for _, w := range r.writes {
			keys[w.Key] = struct{}{}
		}
		if len(keys) < len(r.writes) {
			return fmt.Errorf("%w: a group names a key twice", store.ErrInvalid)
		}
	}
	return nil
}

// text makes a string that PostgreSQL stores.
func text(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}
