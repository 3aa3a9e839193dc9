package flow

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/flow/fair"
)

// Reasons of a refusal, as Kubernetes' metrics name them.
const (
	reasonQueueFull = "queue-full"
	reasonNoQueue   = "concurrency-limit"
	reasonTimeout   = "time-out"
	reasonCancelled = "cancelled"
)

// delayed is a clock that calls functions later.
type delayed interface {
	clock.PassiveClock
	AfterFunc(d time.Duration, f func()) clock.Timer
}

// level is the running state of a priority level. It outlives the configurations that name it.
type level struct {
	name   string
	clock  delayed
	gauges *gauges
	// seats are those of the whole server, widest the most that one request may take; 0 is no bound.
	seats  int
	widest atomic.Int32

	mu     sync.Mutex
	exempt bool
	queues *fair.Queues
	shape  fair.Config
	// running is the seats of an exempt level, which has no queues.
	running int
	// peak is the most seats that were wanted at once since the last adjustment, smoothed the demand over adjustments.
	peak, smoothed float64
	claim          claim
	demand         demand
	refusals       refusals
	// executing is how many requests run.
	executing int
	last      fair.Dispatch // that was told
	// present are the requests that wait or run, total what became of all.
	present map[*presence]struct{}
	total   totals
}

// totals count requests.
type totals struct{ dispatched, rejected, timedOut, cancelled int }

// presence is a request that waits or runs.
type presence struct {
	request          Request
	schema           string
	arrived, started time.Time
	work             fair.Work
	counts           *counts
	fair             *fair.Request
	// length is that of its queue when it had come, itself included; 0 where there are no queues.
	length int
}

// seat is what an admitted request holds.
type seat struct {
	level   *level
	request *fair.Request
	who     *presence
	once    sync.Once
}

// enter waits for seats: until they are free, the deadline comes or ctx ends. reason is empty where the request may go on.
func (l *level) enter(ctx context.Context, who *presence, hash uint64, wait time.Duration) (s *seat, waited bool, reason string) {
	l.mu.Lock()
	who.arrived = l.clock.Now()
	l.present[who] = struct{}{}
	s = &seat{level: l, who: who}
	if l.exempt {
		l.running += who.work.Width()
		l.notice()
		l.begun(who)
		l.mu.Unlock()
		return s, false, ""
	}
	r, outcome := l.queues.Arrive(who.arrived, hash, who.work, func() chan struct{} { return make(chan struct{}) })
	l.notice()
	who.fair, s.request = r, r
	if r != nil {
		r.Caller = who
	}
	if r != nil && l.shape.Queues > 0 {
		who.length = max(l.queues.Place(r)+1, 1)
	}
	switch outcome {
	case fair.Started:
		l.begun(who)
		l.mu.Unlock()
		return s, false, ""
	case fair.QueueFull:
		return nil, false, l.refused(who, reasonQueueFull)
	case fair.NoQueue:
		return nil, false, l.refused(who, reasonNoQueue)
	}
	l.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.Ready:
	case <-timer.C:
		reason = reasonTimeout
	case <-ctx.Done():
		reason = reasonCancelled
		if ctx.Err() == context.DeadlineExceeded {
			reason = reasonTimeout
		}
	}
	l.mu.Lock()
	if reason != "" && l.queues.Cancel(r) {
		l.changed(l.clock.Now())
		return nil, true, l.refused(who, reason)
	}
	l.begun(who) // perhaps just in time
	l.mu.Unlock()
	return s, true, ""
}

// begun notes that a request runs. The level is locked.
func (l *level) begun(who *presence) {
	who.started = l.clock.Now()
	l.total.dispatched++
	l.executing++
	l.tell()
}

// refused notes that a request does not run, and unlocks the level.
func (l *level) refused(who *presence, reason string) string {
	delete(l.present, who)
	switch reason {
	case reasonTimeout:
		l.total.timedOut++
	case reasonCancelled:
		l.total.cancelled++
	default:
		l.total.rejected++
	}
	l.mu.Unlock()
	return reason
}

// leave ends the request, once. Its seats are free when the watches have been told of what it did.
func (s *seat) leave() {
	s.once.Do(func() {
		l := s.level
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.present, s.who)
		l.executing--
		now, linger := l.clock.Now(), s.who.work.Linger
		if s.request != nil {
			linger = l.queues.Finish(now, s.request)
		}
		if linger <= 0 {
			s.free(now)
			return
		}
		l.tell()
		l.clock.AfterFunc(linger, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if s.request != nil {
				l.queues.Release(now.Add(linger), s.request)
			}
			s.free(now.Add(linger))
		})
	})
}

// free lets others have the seats. The level is locked.
func (s *seat) free(now time.Time) {
	l := s.level
	s.who.counts.released(s.who.work.Width())
	if s.request == nil {
		l.running -= s.who.work.Width()
	} else {
		l.serve(now)
	}
	l.changed(now)
}

// serve starts those whose turn it is.
func (l *level) serve(now time.Time) {
	for r := l.queues.Next(now); r != nil; r = l.queues.Next(now) {
		close(r.Ready)
	}
	l.crowded()
}

// crowded counts that a request whose turn it is wants more seats than are free, although some are.
func (l *level) crowded() {
	if l.queues.Waiting() == 0 || l.queues.Seats() >= l.queues.Limit() {
		return
	}
	if r := l.queues.Turn(); r != nil {
		if who, ok := r.Caller.(*presence); ok {
			who.counts.tight.Inc()
		}
	}
}

// notice keeps the peak of the demand.
func (l *level) notice() {
	l.changed(l.clock.Now())
	l.peak = max(l.peak, l.want())
}

// changed notes what is wanted from now on.
func (l *level) changed(now time.Time) {
	l.demand.set(now, l.want())
	l.tell()
}

// tell sets the metrics of how things are.
func (l *level) tell() {
	g := l.gauges
	g.want.set(l.want())
	g.running.set(float64(l.executing))
	if l.exempt {
		g.seats.set(float64(l.running))
		return
	}
	g.seats.set(float64(l.queues.Seats()))
	g.waiting.set(float64(l.queues.Waiting()))
	g.r.Set(l.queues.R())
	if l.shape.Queues == 0 {
		return
	}
	if last := l.queues.Last(); last != l.last {
		l.last = last
		g.dispatched.Set(last.R)
		g.due.Set(last.Due)
		g.least.Set(last.Least)
		g.most.Set(last.Most)
		g.leastLess.Set(last.LeastLess)
		g.mostLess.Set(last.MostLess)
	}
}

// want is how many seats the level's requests hold or wait for.
func (l *level) want() float64 {
	want := float64(l.running)
	if l.queues != nil {
		want += float64(l.queues.Seats() + l.queues.Wanted())
	}
	return want
}

// configure takes over what a configuration says. Those who wait are dealt anew where the queues change.
func (l *level) configure(exempt bool, shape fair.Config, c claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := int(c.nominal + 0.5)
	switch {
	case l.queues == nil:
		l.queues = fair.New(shape, limit)
	case l.shape != shape:
		l.queues.Reshape(shape)
	}
	l.exempt, l.shape, l.claim = exempt, shape, c
	widest := 0.0
	if shape.Queues > 0 {
		widest = max(1, min(math.Ceil(c.nominal*shareOfLevel), math.Floor(c.nominal/float64(max(shape.HandSize, 1)))))
	}
	l.widest.Store(int32(widest))
	l.gauges.waiting.relate(float64(max(shape.Queues, 1) * shape.QueueLength))
}

// smoothing is the weight of the past in the demand of a level that wants less now than before.
const smoothing = 0.7

// measure answers the level's claim with its demand since the last call: at once where it grows, smoothed where it falls.
func (l *level) measure() (claim, wanted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.smoothed = max(l.peak, smoothing*l.smoothed+(1-smoothing)*l.peak)
	l.peak = 0
	of := l.demand.period(l.clock.Now())
	l.notice()
	l.claim.demand = l.smoothed
	return l.claim, of
}

// limit sets the seats of the level, and lets in whom they let.
func (l *level) limit(seats int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues.SetLimit(seats)
	of := float64(seats)
	if seats == 0 {
		of = math.Round(float64(l.seats) / 10)
	}
	for _, r := range []*ratio{l.gauges.seats, l.gauges.running, l.gauges.want} {
		r.relate(of)
	}
	l.serve(l.clock.Now())
	l.tell()
}

// state is what metrics and debugging show.
type state struct {
	limit, seats, waiting int
	claim                 claim
}

func (l *level) state() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := state{limit: l.queues.Limit(), seats: l.queues.Seats() + l.running, waiting: l.queues.Waiting(), claim: l.claim}
	return s
}
