// Package fair shares a number of seats among flows of requests. It is pure: time is given, nothing blocks, and its caller
// sees to it that one goroutine is in it at a time.
//
// A flow is dealt a hand of queues by its hash and joins the shortest of them, so that a flow that floods its queues leaves most
// others a queue that it has not got (shuffle sharding). Among the queues seats go to the one whose next request would end first if all
// had the same share of the seats at any time (fair queuing). How far they would have come, in seconds times seats, is R; it is what Kubernetes'
// metrics tell of. What a request will take is not known when it starts: it is charged an estimate, and the difference when it ends.
package fair

import (
	"math"
	"time"
)

// Config is the shape of the queues.
type Config struct {
	// Queues is their number; 0 lets nobody wait.
	Queues int
	// HandSize is how many of them a flow may use.
	HandSize int
	// QueueLength is how many requests may wait in one.
	QueueLength int
}

// Outcome is what becomes of a request that arrives.
type Outcome int

const (
	// Started says that it has its seats.
	Started Outcome = iota
	// Waits says that it is in a queue.
	Waits
	// QueueFull says that it is refused: every queue of its flow is full.
	QueueFull
	// NoQueue says that it is refused: no seat is free, and there are no queues.
	NoQueue
)

// Work is what a request is estimated to take: Seats while it runs, and when it has ended Final for Linger. It holds the more of both all the
// time.
type Work struct {
	Seats, Final int
	Linger       time.Duration
}

// Width is the most seats that the work takes at a time.
func (w Work) Width() int { return max(w.Seats, w.Final, 1) }

// within is the work with no more than so many seats at its end, for the longer.
func (w Work) within(limit int) Work {
	if limit > 0 && w.Final > limit {
		w.Linger = w.Linger * time.Duration(w.Final) / time.Duration(limit)
		w.Final = limit
	}
	return w
}

// Request is one that was let in. Its fields are read by the caller, and written here only.
type Request struct {
	// Ready and Caller are the caller's own, to tell that the request has started, and whose it is.
	Ready   chan struct{}
	Caller  any
	hash    uint64
	work    Work
	arrived float64 // R then
	seats   int     // what it holds; 0 while it waits
	runs    int     // the seats that it needs while it runs
	charged float64 // for that
	started time.Time
	queue   *queue
	next    *Request
	gone    bool // cancelled while it waited
}

// Seats is how many seats the request holds.
func (r *Request) Seats() int { return r.seats }

// Dispatch is what the queues were like when a request was last started, in seat-seconds: R, the R at which its queue's turn was due, the least and
// the most of these of all queues in which somebody waited, and the same less what their running requests were estimated to take.
type Dispatch struct {
	R, Due              float64
	Least, Most         float64
	LeastLess, MostLess float64
}

// consider counts a queue in which somebody waits.
func (d *Dispatch) consider(c *queue, estimate float64) {
	less := c.virtual - float64(c.seats)*estimate
	d.Least, d.Most = min(d.Least, c.virtual), max(d.Most, c.virtual)
	d.LeastLess, d.MostLess = min(d.LeastLess, less), max(d.MostLess, less)
}

func noDispatch() Dispatch {
	return Dispatch{Least: math.Inf(1), Most: math.Inf(-1), LeastLess: math.Inf(1), MostLess: math.Inf(-1)}
}

type queue struct {
	virtual     float64 // R at which its next request is due
	first, last *Request
	length      int // requests that wait, without the gone
	seats       int // that its running requests hold
	running     int // requests that run
	shape       int // of the queues that it is one of
}

// idle reports whether nobody waits or runs.
func (c *queue) idle() bool { return c.length == 0 && c.running == 0 }

// Queues is the state.
type Queues struct {
	cfg    Config
	limit  int
	queues []queue
	// virtual is R: seat-seconds that a queue would have been given that was never idle. One that has been idle begins there, and gains nothing by
	// its idleness.
	virtual  float64
	at       time.Time // of virtual
	shape    int       // how often the queues were changed
	active   int       // queues in which somebody waits or runs
	last     Dispatch
	estimate float64 // seconds that a request takes, a moving average
	seats    int
	waiting  int // requests
	wanted   int // seats that the waiting want
	turn     *Request
	next     int // queue where the search begins, so that equals take turns
	hand     []int
}

// New returns queues that share limit seats. With none nobody in a queue is started; where there are no queues, one request may be alone.
func New(cfg Config, limit int) *Queues {
	q := &Queues{estimate: 0.005}
	q.Reshape(cfg)
	q.SetLimit(limit)
	return q
}

// Reshape changes the queues. Those who wait are dealt to the new ones in their order; where there are no queues any more, or they are
// full, they wait nevertheless.
func (q *Queues) Reshape(cfg Config) {
	var waiting []*Request
	for i := range q.queues {
		for r := q.queues[i].first; r != nil; r = r.next {
			if !r.gone {
				waiting = append(waiting, r)
			}
		}
	}
	q.cfg = cfg
	q.queues = make([]queue, max(cfg.Queues, 1))
	q.active, q.next = 0, 0
	q.shape++
	for i := range q.queues {
		q.queues[i].shape = q.shape
	}
	for _, r := range waiting {
		r.next = nil
		q.enter(q.choose(r.hash)).push(r)
	}
}

// SetLimit changes the number of seats. Requests that run keep theirs.
func (q *Queues) SetLimit(limit int) { q.limit = max(limit, 0) }

// Limit is the number of seats.
func (q *Queues) Limit() int { return q.limit }

// Seats is how many seats are taken, Waiting how many requests wait, and Wanted how many seats those want.
func (q *Queues) Seats() int   { return q.seats }
func (q *Queues) Waiting() int { return q.waiting }
func (q *Queues) Wanted() int  { return q.wanted }

// R is how far a queue would have come that was never idle, in seat-seconds, and Last what the last start was like.
func (q *Queues) R() float64     { return q.virtual }
func (q *Queues) Last() Dispatch { return q.last }

// Turn is the request whose turn it is for which Next found too few seats, if it did so last.
func (q *Queues) Turn() *Request { return q.turn }

// advance moves R on to now: the active queues shared the seats that were taken. (Kubernetes reckons with those that wide requests wait for, too. Then a flow
// that is late for its width is brought forward to where it never could have been.)
func (q *Queues) advance(now time.Time) {
	passed := now.Sub(q.at).Seconds()
	if q.at.IsZero() {
		passed = 0
	}
	if passed < 0 {
		return
	}
	q.at = now
	if q.active > 0 && q.cfg.Queues > 0 {
		q.virtual += passed * float64(min(q.seats, q.limit)) / float64(q.active)
	}
}

// enter makes a queue active that somebody is about to join.
func (q *Queues) enter(c *queue) *queue {
	if c.idle() {
		c.virtual = q.virtual
		q.active++
	}
	return c
}

// left counts a queue that somebody has left, and sees to it that the one whose turn it is next there is not due before it came.
func (q *Queues) left(c *queue) {
	if c.idle() {
		if q.owns(c) {
			q.active--
		}
		return
	}
	if c.trim(); c.first != nil {
		c.virtual = max(c.virtual, c.first.arrived)
	}
}

// owns reports whether a queue is one of the present ones: requests that ran when the queues were changed are in others.
func (q *Queues) owns(c *queue) bool {
	return c.shape == q.shape
}

// Arrive lets a request of the flow with the hash in. The Request is nil where it is refused. ready is told
// to nobody; it is there for the caller of Next.
func (q *Queues) Arrive(now time.Time, hash uint64, work Work, ready func() chan struct{}) (*Request, Outcome) {
	q.advance(now)
	width := work.Width()
	// Wider than all there is: it may start when it is alone.
	if q.waiting == 0 && q.fits(width) {
		r := &Request{hash: hash, work: work, arrived: q.virtual}
		r.queue = &q.queues[0]
		if q.cfg.Queues > 0 {
			r.queue = q.choose(hash)
		}
		q.enter(r.queue)
		d := noDispatch()
		d.consider(r.queue, q.estimate)
		q.start(now, r, d)
		return r, Started
	}
	if q.cfg.Queues == 0 {
		return nil, NoQueue
	}
	to := q.choose(hash)
	if to.length >= q.cfg.QueueLength {
		return nil, QueueFull
	}
	r := &Request{hash: hash, work: work, arrived: q.virtual, Ready: ready()}
	q.enter(to).push(r)
	q.waiting++
	q.wanted += width
	return r, Waits
}

// fits tells whether so many seats are free; one who wants more than there are may have all of them.
func (q *Queues) fits(width int) bool {
	if q.limit == 0 {
		return q.cfg.Queues == 0 && q.seats == 0
	}
	return q.seats+min(width, q.limit) <= q.limit
}

// Next starts the request whose turn it is, or answers nil while none may start.
func (q *Queues) Next(now time.Time) *Request {
	q.advance(now)
	q.turn = nil
	if q.waiting == 0 {
		return nil
	}
	var best *queue
	at, soonest, d := 0, 0.0, noDispatch()
	for i := range q.queues {
		n := q.next + i
		if n >= len(q.queues) {
			n -= len(q.queues)
		}
		c := &q.queues[n]
		if c.trim(); c.first == nil {
			continue
		}
		d.consider(c, q.estimate)
		if ends := c.virtual + q.charge(c.first); best == nil || ends < soonest {
			best, at, soonest = c, n, ends
		}
	}
	// It is this one's turn even if another's would fit: else wide requests would wait for ever.
	if best == nil {
		return nil
	}
	if !q.fits(best.first.work.Width()) {
		q.turn = best.first
		return nil
	}
	q.next = at + 1
	if q.next == len(q.queues) {
		q.next = 0
	}
	r := best.pop()
	q.waiting--
	q.wanted -= r.work.Width()
	r.queue = best
	q.start(now, r, d)
	if best.first != nil {
		best.virtual = max(best.virtual, best.first.arrived)
	}
	return r
}

// charge is what a request is reckoned to take in all, in seat-seconds.
func (q *Queues) charge(r *Request) float64 {
	return float64(q.running(r))*q.estimate + float64(r.work.Final)*r.work.Linger.Seconds()
}

// running is how many seats a request needs while it runs.
func (q *Queues) running(r *Request) int { return max(min(r.work.Seats, q.limit), 1) }

func (q *Queues) start(now time.Time, r *Request, d Dispatch) {
	c := r.queue
	d.R, d.Due = q.virtual, c.virtual
	q.last = d
	r.work = r.work.within(q.limit)
	r.seats, r.started = max(min(r.work.Width(), q.limit), 1), now
	r.runs = q.running(r)
	r.charged = float64(r.runs) * q.estimate
	c.virtual += q.charge(r)
	c.seats += r.seats
	c.running++
	q.seats += r.seats
}

// Finish notes that a request has ended that ran. Its seats are taken back at once where it answers 0, and else when the caller has Release
// do so, after that time.
func (q *Queues) Finish(now time.Time, r *Request) (linger time.Duration) {
	q.advance(now)
	took := max(now.Sub(r.started).Seconds(), 0)
	r.queue.virtual += float64(r.runs)*took - r.charged
	r.queue.running--
	q.estimate += (took - q.estimate) / 16
	if linger = r.work.Linger; linger <= 0 {
		q.Release(now, r)
	}
	q.left(r.queue)
	return linger
}

// Release takes the seats back of a request that has finished. The caller asks Next until it answers nil.
func (q *Queues) Release(now time.Time, r *Request) {
	q.advance(now)
	r.queue.seats -= r.seats
	q.seats -= r.seats
	r.seats = 0
}

// Cancel takes a request that waits out of its queue. It answers false where the request has started: then it must be finished.
func (q *Queues) Cancel(r *Request) bool {
	if r.seats > 0 || r.gone {
		return false
	}
	r.gone = true
	r.queue.length--
	q.waiting--
	q.wanted -= r.work.Width()
	q.left(r.queue)
	return true
}

// choose returns the queue of a flow's hand in which the fewest wait; of equals the one that holds the fewest seats.
func (q *Queues) choose(hash uint64) *queue {
	if len(q.queues) == 1 {
		return &q.queues[0]
	}
	q.hand = Deal(q.hand[:0], hash, len(q.queues), q.cfg.HandSize)
	best := &q.queues[q.hand[0]]
	for _, i := range q.hand[1:] {
		c := &q.queues[i]
		if c.length < best.length || c.length == best.length && c.seats < best.seats {
			best = c
		}
	}
	return best
}

func (c *queue) push(r *Request) {
	r.queue = c
	if c.first == nil {
		c.first = r
	} else {
		c.last.next = r
	}
	c.last = r
	c.length++
}

// trim drops the gone from the front.
func (c *queue) trim() {
	for c.first != nil && c.first.gone {
		c.first = c.first.next
	}
	if c.first == nil {
		c.last = nil
	}
}

func (c *queue) pop() *Request {
	r := c.first
	c.first = r.next
	if c.first == nil {
		c.last = nil
	}
	r.next = nil
	c.length--
	return r
}
