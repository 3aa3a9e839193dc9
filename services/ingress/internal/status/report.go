package status

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/services/ingress/internal/route"
)

// grace is how long a fault has to last before it is told of: an Ingress may come a moment before what it names.
const grace = 3 * time.Second

// Reporter tells of faults in events, once each.
type Reporter struct {
	events record.EventRecorder
	clock  clock.WithTicker
	wake   chan struct{}

	mu     sync.Mutex
	faults []route.Fault
}

// NewReporter returns a reporter that knows no faults; it tells of them in Run.
func NewReporter(events record.EventRecorder, c clock.WithTicker) *Reporter {
	return &Reporter{events: events, clock: c, wake: make(chan struct{}, 1)}
}

// Set replaces the faults that there are.
func (r *Reporter) Set(faults []route.Fault) {
	r.mu.Lock()
	r.faults = faults
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// same tells faults apart.
type same struct {
	object          types.UID
	reason, message string
}

// known is a fault that is there.
type known struct {
	since time.Time
	told  bool
}

// Run tells of faults until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	before := map[same]known{}
	for {
		var wait time.Duration
		before, wait = r.report(before)
		var later <-chan time.Time // nil waits for ever
		stop := func() bool { return true }
		if wait > 0 {
			timer := r.clock.NewTimer(wait)
			later, stop = timer.C(), timer.Stop
		}
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-r.wake:
		case <-later:
		}
		stop()
	}
}

// report tells of the faults that have lasted. It returns those that there are, and when to look again, 0 for not before they change.
func (r *Reporter) report(before map[same]known) (map[same]known, time.Duration) {
	r.mu.Lock()
	faults := r.faults
	r.mu.Unlock()
	now, wait, after := r.clock.Now(), time.Duration(0), map[same]known{}
	for _, f := range faults {
		key := same{f.Object.GetUID(), f.Reason, f.Message}
		k, ok := before[key]
		if !ok {
			k.since = now
		}
		if left := grace - now.Sub(k.since); !k.told && left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
		} else if !k.told {
			r.events.Event(f.Object, corev1.EventTypeWarning, f.Reason, f.Message)
			k.told = true
		}
		after[key] = k
	}
	return after, wait
}
