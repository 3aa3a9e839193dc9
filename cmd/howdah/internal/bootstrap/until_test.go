package bootstrap

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUntilDone(t *testing.T) {
	refused := errors.New("the provided network does not match the current range")
	tries := 0
	err := UntilDone(t.Context(), time.Millisecond, func(context.Context) error {
		if tries++; tries < 3 {
			return refused
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := UntilDone(ctx, time.Millisecond, func(context.Context) error { return refused }); !errors.Is(err, refused) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in vain: %v", err)
	}
}
