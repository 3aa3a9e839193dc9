package audit

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// lostEvery is the least time between two messages about lost events.
const lostEvery = 10 * time.Second

// losses counts lost events, and logs them without flooding the log.
type losses struct {
	backend string
	metrics *Metrics
	clock   clock.PassiveClock

	mu   sync.Mutex
	last time.Time
	n    int
}

func (l *losses) add(n int, err error) {
	l.metrics.lost(l.backend, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += n
	if now := l.clock.Now(); l.last.IsZero() || now.Sub(l.last) >= lostEvery {
		slog.Error("audit events are lost", "backend", l.backend, "events", l.n, "err", err)
		l.last, l.n = now, 0
	}
}
