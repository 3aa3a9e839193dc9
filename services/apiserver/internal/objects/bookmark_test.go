package objects

import (
	"context"
	"testing"
	"time"
)

// The last bookmark of a watch comes before its time is up, where that is sooner than the usual one.
func TestBeforeEnd(t *testing.T) {
	t.Parallel()
	if got := beforeEnd(context.Background(), time.Minute); got != time.Minute {
		t.Errorf("without an end: %s", got)
	}
	for _, test := range []struct {
		name  string
		left  time.Duration
		usual bool
	}{
		{"an end far away", time.Hour, true},
		{"an end before the next bookmark", 40 * time.Second, false},
		{"an end at once", time.Second, true},
	} {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(test.left))
		got := beforeEnd(ctx, time.Minute)
		cancel()
		if usual := got == time.Minute; usual != test.usual || got <= 0 || got > time.Minute {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}
