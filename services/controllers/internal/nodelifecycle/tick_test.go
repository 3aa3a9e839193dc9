package nodelifecycle

import (
	"context"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// tick moves the clock by five seconds again and again, and calls each after
// every move, until ctx ends. The pause lets the controller see each step.
func tick(clock *testclock.FakeClock, each func()) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C:
				clock.Step(5 * time.Second)
				each()
			}
		}
	}
}
