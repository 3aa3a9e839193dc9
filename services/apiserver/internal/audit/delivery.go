package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// Modes say who waits for events to be delivered, in Kubernetes' words.
const (
	// ModeBatch delivers in the background, many at a time; what does not fit into the buffer is lost.
	ModeBatch = "batch"
	// ModeBlocking makes a request wait until each of its events is delivered, or lost.
	ModeBlocking = "blocking"
	// ModeBlockingStrict also refuses a request whose first event is lost.
	ModeBlockingStrict = "blocking-strict"
)

var modes = []string{ModeBatch, ModeBlocking, ModeBlockingStrict}

// Delivery says how events come to a backend.
type Delivery struct {
	// Mode is blocking where it is empty.
	Mode string
	// BufferSize is how many events may wait, MaxSize the most of one batch, and MaxWait how long one that is not full waits for more. Of the
	// mode batch.
	BufferSize, MaxSize int
	MaxWait             time.Duration
	// Throttle bounds the batches to QPS a second, and Burst at once.
	Throttle bool
	QPS      float32
	Burst    int
	// Truncate takes request and response out of events of more than MaxEventSize bytes; those that are larger even then are lost. Events
	// are measured one by one, so that MaxTruncatedBatch never splits anything; it is checked alone.
	Truncate                        bool
	MaxEventSize, MaxTruncatedBatch int64
}

// validate says all that is wrong, in Kubernetes' words; name is log or webhook.
func (d Delivery) validate(name string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(modes, d.Mode) {
		wrong("invalid audit %s mode %s, allowed modes are %q", name, d.Mode, strings.Join(modes, ","))
	}
	if d.Mode == ModeBatch {
		if d.BufferSize <= 0 {
			wrong("invalid audit batch %s buffer size %v, must be a positive number", name, d.BufferSize)
		}
		if d.MaxSize <= 0 {
			wrong("invalid audit batch %s max batch size %v, must be a positive number", name, d.MaxSize)
		}
		if d.Throttle && d.QPS <= 0 {
			wrong("invalid audit batch %s throttle QPS %v, must be a positive number", name, d.QPS)
		}
		if d.Throttle && d.Burst <= 0 {
			wrong("invalid audit batch %s throttle burst %v, must be a positive number", name, d.Burst)
		}
	}
	if d.Truncate {
		if d.MaxEventSize <= 0 {
			wrong("invalid audit truncate %s max event size %d, must be a positive number", name, d.MaxEventSize)
		}
		if d.MaxTruncatedBatch < d.MaxEventSize {
			wrong("invalid audit truncate %s max batch size %d, must be greater than max event size (%d)", name, d.MaxTruncatedBatch, d.MaxEventSize)
		}
	}
	return errors.Join(errs...)
}

// sink is where events end up.
type sink interface {
	// send delivers all of the events, or fails.
	send(ctx context.Context, events []auditv1.Event) error
	// close is called after the last send.
	close()
}

// delivery brings events to a sink.
type delivery struct {
	cfg   Delivery
	to    sink
	queue *queue // of the mode batch
	limit flowcontrol.RateLimiter
	// slots are the batches that may be under way at once.
	slots chan struct{}
	// failed, blocked and tooLarge are the events that are lost, by what has lost them.
	failed, blocked, tooLarge *losses
}

func newDelivery(name string, cfg Delivery, to sink, atOnce int, metrics *Metrics, clock clock.WithTicker) *delivery {
	lost := func(plugin string) *losses { return &losses{backend: plugin, metrics: metrics, clock: clock} }
	d := &delivery{cfg: cfg, to: to, slots: make(chan struct{}, atOnce), failed: lost(name), blocked: lost("buffered"), tooLarge: lost("truncate")}
	if cfg.Mode == ModeBatch {
		d.queue = newQueue(batching{Buffer: cfg.BufferSize, Size: cfg.MaxSize, Wait: cfg.MaxWait}, clock, d.blocked.add)
		if cfg.Throttle {
			d.limit = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
		}
	}
	return d
}

// record implements backend. It fails where a request is to be refused because the event is lost.
func (d *delivery) record(e auditv1.Event) error {
	if d.cfg.Truncate {
		var err error
		if e, err = truncated(e, d.cfg.MaxEventSize); err != nil {
			d.tooLarge.add(1, err)
			return nil
		}
	}
	if d.queue != nil {
		d.queue.put(e)
		return nil
	}
	err := d.to.send(context.Background(), []auditv1.Event{e})
	if err != nil {
		d.failed.add(1, err)
	}
	if d.cfg.Mode == ModeBlockingStrict {
		return err
	}
	return nil
}

// run implements backend.
func (d *delivery) run(ctx context.Context) error {
	defer d.to.close()
	if d.queue == nil {
		<-ctx.Done()
		return nil
	}
	var under sync.WaitGroup
	d.queue.run(ctx, func(ctx context.Context, events []auditv1.Event) {
		if d.limit != nil {
			if err := d.limit.Wait(ctx); err != nil {
				d.failed.add(len(events), err)
				return
			}
		}
		select {
		case d.slots <- struct{}{}:
		case <-ctx.Done():
			d.failed.add(len(events), ctx.Err())
			return
		}
		under.Go(func() {
			defer func() { <-d.slots }()
			if err := d.to.send(ctx, events); err != nil {
				d.failed.add(len(events), err)
			}
		})
	}, under.Wait)
	return nil
}
