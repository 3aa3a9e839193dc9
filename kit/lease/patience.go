package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// tick is how finely a process counts its own time.
const tick = 50 * time.Millisecond

// errPatience is why an attempt within some time was ended.
var errPatience = errors.New("no answer in time")

// within calls attempt, and ends its context when patience has passed of this process' own time: that in which it ran. One that is starved
// of processors, or was stopped, has not been waiting in vain meanwhile, it has not looked. It answers how much of its own time went by.
func within(ctx context.Context, patience time.Duration, attempt func(ctx context.Context) error) (spent time.Duration, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- attempt(ctx) }()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return spent, err
		case <-ticker.C: // one that comes late stands for those that it is late by
			if spent += tick; spent < patience {
				continue
			}
		}
		end()
		if err = <-done; err != nil {
			err = fmt.Errorf("%w: %w", errPatience, err)
		}
		return spent, err // nil where the answer came all the same
	}
}

// watch is what a standby sees of a leader, asking again and again.
type watch struct{ silent int }

// see takes in how long the leader has been silent by the server's clock, and says whether it is to be replaced: after staleAfter, during
// which the standby has seen it silent as often as it asks in that time. A standby that asks less often is starved itself, and what
// it shares a machine with, too.
func (w *watch) see(silence time.Duration) bool {
	if silence < 2*beatEvery {
		w.silent = 0
		return false
	}
	w.silent++
	return silence >= staleAfter && w.silent > int((staleAfter-2*beatEvery)/askEvery)
}
