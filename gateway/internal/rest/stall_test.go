package rest

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// cut is a client that notes when it is cut off.
type cut struct {
	http.ResponseWriter
	off atomic.Bool
	ran chan struct{}
}

func (c *cut) SetWriteDeadline(time.Time) error {
	if c.off.CompareAndSwap(false, true) {
		close(c.ran)
	}
	return nil
}

func stalled(bound time.Duration) (*stall, *cut) {
	c := &cut{ran: make(chan struct{})}
	s := newStall(c)
	s.bound = bound
	return s, c
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	s, c := stalled(time.Millisecond)
	defer s.stop()
	for range 100 { // writes that end in time
		s.begin()
		s.end()
	}
	s.begin()
	select {
	case <-c.ran:
	case <-time.After(time.Minute):
		t.Fatal("the write goes on for ever")
	}
}

// The timer that was set for a write finds another one, which is young, or none.
func TestAClientThatReadsIsLeftAlone(t *testing.T) {
	t.Parallel()
	s, c := stalled(time.Hour)
	s.begin()
	s.end()
	s.look()
	if s.running {
		t.Error("the timer runs for no write")
	}
	s.begin()
	if !s.running {
		t.Error("no timer runs for a write")
	}
	s.look()
	if !s.running || c.off.Load() {
		t.Error("a young write was not left to go on")
	}
	s.stop()
	s.look()
	if c.off.Load() {
		t.Error("who has gone was cut off")
	}
}
