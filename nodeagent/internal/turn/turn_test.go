package turn

import (
	"context"
	"errors"
	"testing"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	var turns Turns
	end, err := turns.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := turns.Take(t.Context(), "b"); err != nil {
		t.Error("another name waits")
	} else {
		other()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.Take(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("two have the turn: %v", err)
	}
	var n int // written by who has the turn alone, as the race detector sees
	done := make(chan error)
	for range 4 {
		go func() {
			end, err := turns.Take(t.Context(), "a")
			if err == nil {
				n++
				end()
			}
			done <- err
		}()
	}
	n++
	end()
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n != 5 || len(turns.names) != 0 {
		t.Errorf("%d had a turn, %d names are left", n, len(turns.names))
	}
}
