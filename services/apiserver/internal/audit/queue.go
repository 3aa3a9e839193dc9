package audit

import (
	"context"
	"errors"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
)

// batching is how events are gathered.
type batching struct {
	// Buffer is how many events may wait; more are lost.
	Buffer int
	// Size is the most events of one batch, Wait how long one that is not full waits for more.
	Size int
	Wait time.Duration
}

// queue gathers events into batches.
type queue struct {
	cfg    batching
	clock  clock.WithTicker
	events chan auditv1.Event
	lost   func(n int, err error)
}

func newQueue(cfg batching, clock clock.WithTicker, lost func(int, error)) *queue {
	return &queue{cfg: cfg, clock: clock, events: make(chan auditv1.Event, cfg.Buffer), lost: lost}
}

var errFull = errors.New("audit buffer queue blocked")

// put never waits: a full buffer loses the event.
func (q *queue) put(e auditv1.Event) {
	select {
	case q.events <- e:
	default:
		q.lost(1, errFull)
	}
}

// run delivers batches until ctx ends, and then what was put before, with stopTime to do so. finish waits for deliveries that are under way.
func (q *queue) run(ctx context.Context, deliver func(context.Context, []auditv1.Event), finish func()) {
	// A delivery that is under way when ctx ends is finished too.
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := q.clock.NewTimer(stopTime)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-last.Done():
		}
	})
	defer stop()
	for ctx.Err() == nil {
		if batch := q.gather(ctx); len(batch) > 0 {
			deliver(last, batch)
		}
	}
	for len(q.events) > 0 && last.Err() == nil {
		deliver(last, q.rest(nil))
	}
	finish()
}

// stopTime bounds the delivery of what is left at the end.
const stopTime = 5 * time.Second

// gather waits for an event, and for more up to a full batch.
func (q *queue) gather(ctx context.Context) []auditv1.Event {
	var batch []auditv1.Event
	select {
	case <-ctx.Done():
		return nil
	case e := <-q.events:
		batch = append(batch, e)
	}
	if q.cfg.Wait == 0 {
		return q.rest(batch)
	}
	timer := q.clock.NewTimer(q.cfg.Wait)
	defer timer.Stop()
	for len(batch) < q.cfg.Size {
		select {
		case e := <-q.events:
			batch = append(batch, e)
		case <-timer.C():
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// rest adds what is there to a batch.
func (q *queue) rest(batch []auditv1.Event) []auditv1.Event {
	for len(batch) < q.cfg.Size {
		select {
		case e := <-q.events:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}
