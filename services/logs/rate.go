package logs

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// burst is for how long the rate may be exceeded after a rest.
const burst = 10 * time.Second

// bucket bounds what is stored in a second, over a while.
type bucket struct {
	clock clock.PassiveClock
	rate  float64 // bytes a second

	mu   sync.Mutex
	left float64
	at   time.Time
}

func newBucket(rate int64, clk clock.PassiveClock) *bucket {
	return &bucket{clock: clk, rate: float64(rate), left: float64(rate) * burst.Seconds(), at: clk.Now()}
}

// open returns how long to wait; 0 where something may be stored now.
func (b *bucket) open() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	b.left = min(b.left+now.Sub(b.at).Seconds()*b.rate, b.rate*burst.Seconds())
	b.at = now
	if b.left > 0 {
		return 0
	}
	return time.Duration(-b.left/b.rate*float64(time.Second)) + time.Millisecond
}

// take counts what was stored.
func (b *bucket) take(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= float64(bytes)
}
