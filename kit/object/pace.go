package object

import (
	"context"
	"sync"
	"time"
)

const (
	// restAfter is how long after Rest informers begin to lag: a process that leads at once never does.
	restAfter = 2 * time.Second
	// restGather is how far they lag then. It bounds, too, how much more than others a standby has to catch up with.
	restGather = time.Second
)

// Rest lets the set's informers lag behind the API by up to a second from some moments on, until Wake: they are told of what has changed in
// the meantime all at once, of each object by its last state alone, which costs the API server, the network and this process a part of
// what it costs to hear of every change. It is for those that only have to know roughly, as standbys.
func (s *Informers) Rest() { s.pace.rest() }

// Wake ends Rest: what the informers lag behind is on its way when it returns, and CatchUp waits for it.
func (s *Informers) Wake() { s.pace.wake() }

// Refresh waits until every informer of the set has caught up, without the lag of Rest, which goes on afterwards.
func (s *Informers) Refresh(ctx context.Context) error {
	s.pace.hurry(1)
	defer s.pace.hurry(-1)
	return s.CatchUp(ctx)
}

// pace says how much informers are in a hurry.
type pace struct {
	mu      sync.Mutex
	resting *time.Timer // since Rest, until Wake
	lags    bool        // from some moments after Rest, until Wake
	hurried int         // how many want it not to lag nevertheless
	gather  time.Duration
	changed chan struct{} // closed when gather changes
}

func (p *pace) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resting != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(restAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.resting == timer { // not woken meanwhile
			p.lags = true
			p.set()
		}
	})
	p.resting = timer
}

func (p *pace) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resting != nil {
		p.resting.Stop()
		p.resting = nil
	}
	p.lags = false
	p.set()
}

// hurry adds to those who want it not to lag, or takes from them.
func (p *pace) hurry(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried += n
	p.set()
}

func (p *pace) set() {
	gather := time.Duration(0)
	if p.lags && p.hurried == 0 {
		gather = restGather
	}
	if p.gather != gather {
		p.gather = gather
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// now returns how long changes are to be gathered, and a channel that is closed when that changes.
func (p *pace) now() (time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gather, p.changed
}

// while returns a context that ends with ctx, or when changed is closed.
func while(ctx context.Context, changed <-chan struct{}) context.Context {
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}()
	return ctx
}
