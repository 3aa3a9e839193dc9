// Package leadingtest elects leaders as a test wants it.
package leadingtest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Election lets one candidate lead at a time, and ends leaderships when a test says so.
type Election struct {
	turn  chan struct{} // holds a token while somebody may begin to lead
	ended chan struct{} // a token for each leadership that End ended

	mu      sync.Mutex
	epoch   int64
	depose  context.CancelFunc
	closing bool // nobody leads after this leadership
}

// New returns an election where one may lead at once.
func New() *Election {
	e := Closed()
	e.Open()
	return e
}

// Closed returns an election where nobody leads before Open.
func Closed() *Election {
	return &Election{turn: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
}

// Open lets one lead.
func (e *Election) Open() { e.turn <- struct{}{} }

// Depose ends the leadership that there is; another begins when the leader has let go.
func (e *Election) Depose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.depose()
}

// End deposes the leader and waits until it has let go. Nobody leads then until Open.
func (e *Election) End(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	e.closing = true
	e.depose()
	e.mu.Unlock()
	select {
	case <-e.ended:
	case <-time.After(time.Minute):
		t.Fatal("the deposed leader does not let go")
	}
}

// Epoch is that of the last leader.
func (e *Election) Epoch() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}

// Run does what package lease does: lead is called again after a loss.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, epoch int64) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.turn:
		}
		leading, depose := context.WithCancel(ctx)
		err := lead(leading, e.begin(depose))
		lost := leading.Err() != nil
		depose()
		e.pass()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !lost {
			return err
		}
	}
}

func (e *Election) begin(depose context.CancelFunc) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch++
	e.depose = depose
	return e.epoch
}

// pass gives the turn to another, or to nobody after End.
func (e *Election) pass() {
	e.mu.Lock()
	closing := e.closing
	e.closing = false
	e.mu.Unlock()
	if closing {
		e.ended <- struct{}{}
	} else {
		e.Open()
	}
}
