package sweep

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestLoop(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	l := New(clock)
	ctx, cancel := context.WithCancel(t.Context())
	looks, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- l.Run(ctx, func(context.Context) time.Duration { looks <- struct{}{}; return time.Minute })
	}()
	<-looks // at the beginning
	l.Wake()
	<-looks                   // though no time has passed
	for !clock.HasWaiters() { // the look has returned, its timer is about to be made
		runtime.Gosched()
	}
	clock.Step(time.Minute)
	<-looks // though nobody woke it
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
