// Package pause keeps what has failed from being tried again too soon.
package pause

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// First is the pause after a first failure.
const First = 500 * time.Millisecond

const longest = 2*time.Minute + 2*time.Second

// Pauses are those of tasks, by name. Each is twice as long as the one before, from half a second to about two minutes.
type Pauses struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	tasks map[string]pause
}

// pause is how long nothing is tried again.
type pause struct {
	until time.Time
	last  time.Duration
}

// New returns Pauses; there are none.
func New(c clock.PassiveClock) *Pauses { return &Pauses{clock: c, tasks: map[string]pause{}} }

// Early says why it is too early to try a task again.
func (p *Pauses) Early(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.tasks[name]; ok && p.clock.Now().Before(t.until) {
		return fmt.Errorf("no retries permitted until %s (durationBeforeRetry %s)", t.until.Format(time.RFC3339), t.last)
	}
	return nil
}

// Tried notes how a task went.
func (p *Pauses) Tried(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.tasks, name)
		return
	}
	last := min(max(2*p.tasks[name].last, First), longest)
	p.tasks[name] = pause{p.clock.Now().Add(last), last}
}

// Left is how long a task's pause still lasts, which is never nothing: who waits for it comes after its end.
func (p *Pauses) Left(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.tasks[name].until.Sub(p.clock.Now()), time.Millisecond)
}
