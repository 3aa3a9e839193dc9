package rest

import (
	"net/http"
	"sync"
	"time"
)

// writeTimeout bounds how long a client may leave what is written unread.
const writeTimeout = time.Minute

// stall cuts off a client who does not read. A deadline of the connection would do the same, but on HTTP/2 it costs a round through the
// server's loop, and ends idle watches. Setting a timer for every write costs a watch a twentieth of an event: this one runs on, and
// looks whether the write goes on that it was set for.
type stall struct {
	out   http.ResponseWriter
	bound time.Duration

	mu      sync.Mutex
	since   time.Time // when the present write has begun; zero: none goes on
	timer   *time.Timer
	running bool
}

func newStall(out http.ResponseWriter) *stall { return &stall{out: out, bound: writeTimeout} }

// begin notes that a write begins. Writes are one after the other.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
	switch {
	case s.running:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(s.bound, s.look)
	default:
		s.timer.Reset(s.bound)
	}
	s.running = true
}

// end notes that the write is over.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}

// stop ends the watch over the client. It must come before the handler returns.
func (s *stall) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// look cuts the client off where a write has lasted too long, and looks again later where one has not yet.
func (s *stall) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.since.IsZero() {
		return // the next write starts the timer
	}
	left := s.bound - time.Since(s.since)
	if left <= 0 {
		_ = http.NewResponseController(s.out).SetWriteDeadline(time.Now()) // not every server supports it
		return
	}
	s.running = true
	s.timer.Reset(left)
}
