// Package fair shares a number of seats among flows of requests. It is pure: time is given, nothing blocks, and its caller
// sees to it that one goroutine is in it at a time.
//
// A flow is dealt a hand of queues by its hash and joins the shortest of them, so that a flow that floods its queues leaves most
// others a queue that it has not got (shuffle sharding). Among the queues seats go to the one that has had the least of
// them, in seconds times seats (start-time fair queuing). What a request will take is not known when it starts: it is charged an
// estimate, and the difference when it ends.
package fair

import (
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

// Request is one that was let in. Its fields are read by the caller, and written here only.
type Request struct {
	// Ready is the caller's own, to tell that the request has started.
	Ready   chan struct{}
	hash    uint64
	width   int
	seats   int // what it holds; 0 while it waits
	charged float64
	started time.Time
	queue   *queue
	next    *Request
	gone    bool // cancelled while it waited
}

// Seats is how many seats the request holds.
func (r *Request) Seats() int { return r.seats }

type queue struct {
	virtual     float64 // seat-seconds that the queue has been charged, on the scale of Queues.virtual
	first, last *Request
	length      int // requests that wait, without the gone
	seats       int // that its running requests hold
	running     int // requests that run
}

// Queues is the state.
type Queues struct {
	cfg    Config
	limit  int
	queues []queue
	// virtual is where the last queue stood that was served: a queue that has been idle begins there, and gains nothing by its idleness.
	virtual  float64
	estimate float64 // seconds that a request takes, a moving average
	seats    int
	waiting  int // requests
	wanted   int // seats that the waiting want
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
	for i := range q.queues {
		q.queues[i].virtual = q.virtual
	}
	q.next = 0
	for _, r := range waiting {
		r.next = nil
		q.choose(r.hash).push(r)
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

// Arrive lets a request of the flow with the hash in, which wants width seats. The Request is nil where it is refused. ready is told
// to nobody; it is there for the caller of Next.
func (q *Queues) Arrive(now time.Time, hash uint64, width int, ready func() chan struct{}) (*Request, Outcome) {
	width = max(width, 1)
	// Wider than all there is: it may start when it is alone.
	if q.waiting == 0 && q.fits(width) {
		r := &Request{hash: hash, width: width}
		r.queue = &q.queues[0]
		if q.cfg.Queues > 0 {
			r.queue = q.choose(hash)
		}
		q.start(now, r)
		return r, Started
	}
	if q.cfg.Queues == 0 {
		return nil, NoQueue
	}
	to := q.choose(hash)
	if to.length >= q.cfg.QueueLength {
		return nil, QueueFull
	}
	r := &Request{hash: hash, width: width, Ready: ready()}
	if to.length == 0 && to.seats == 0 {
		to.virtual = max(to.virtual, q.virtual)
	}
	to.push(r)
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
	if q.waiting == 0 {
		return nil
	}
	var best *queue
	at := 0
	for i := range q.queues {
		n := q.next + i
		if n >= len(q.queues) {
			n -= len(q.queues)
		}
		c := &q.queues[n]
		if c.trim(); c.first != nil && (best == nil || c.virtual < best.virtual) {
			best, at = c, n
		}
	}
	// It is this one's turn even if another's would fit: else wide requests would wait for ever.
	if best == nil || !q.fits(best.first.width) {
		return nil
	}
	q.next = at + 1
	if q.next == len(q.queues) {
		q.next = 0
	}
	r := best.pop()
	q.waiting--
	q.wanted -= r.width
	r.queue = best
	q.start(now, r)
	return r
}

func (q *Queues) start(now time.Time, r *Request) {
	c := r.queue
	if c.length == 0 && c.seats == 0 {
		c.virtual = max(c.virtual, q.virtual)
	}
	q.virtual = max(q.virtual, c.virtual)
	r.seats, r.started = max(min(r.width, q.limit), 1), now
	r.charged = float64(r.seats) * q.estimate
	c.virtual += r.charged
	c.seats += r.seats
	c.running++
	q.seats += r.seats
}

// Finish takes the seats of a request that ran back. The caller asks Next until it answers nil.
func (q *Queues) Finish(now time.Time, r *Request) {
	took := max(now.Sub(r.started).Seconds(), 0)
	r.queue.virtual += float64(r.seats)*took - r.charged
	r.queue.seats -= r.seats
	r.queue.running--
	q.seats -= r.seats
	q.estimate += (took - q.estimate) / 16
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
	q.wanted -= r.width
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
