// Package sweep looks for what is to be undone: whenever something may have to be, and after a while though nothing was heard.
package sweep

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Loop looks again and again.
type Loop struct {
	clock clock.Clock
	poke  chan struct{}
}

// New returns a Loop; it starts nothing.
func New(c clock.Clock) *Loop { return &Loop{c, make(chan struct{}, 1)} }

// Wake has it look at once.
func (l *Loop) Wake() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// Run looks until ctx ends. Each look returns when to look again at the latest.
func (l *Loop) Run(ctx context.Context, look func(context.Context) time.Duration) error {
	for {
		timer := l.clock.NewTimer(look(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-l.poke:
		case <-timer.C():
		}
		timer.Stop()
	}
}
