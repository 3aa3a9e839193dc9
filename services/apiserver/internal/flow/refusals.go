package flow

import (
	"sync"
	"time"
)

// refusals decides when those whom a level refuses are asked to come again: the later, the more are refused. As Kubernetes' own apiserver was seen to
// answer, it is judged once in as many seconds as it says, doubles where three times as many requests were refused in that time, and falls by
// a second where fewer were. The zero value asks for a second.
type refusals struct {
	mu      sync.Mutex
	seconds int // 0 is 1
	since   time.Time
	count   int
}

// maxRetryAfter bounds what is asked for, in seconds.
const maxRetryAfter = 64

// retryAfter counts a refusal, and answers after how many seconds to come again.
func (r *refusals) retryAfter(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seconds = max(r.seconds, 1)
	if r.since.IsZero() {
		r.since = now
	}
	if now.Sub(r.since) >= time.Duration(r.seconds)*time.Second {
		switch {
		case r.count >= 3*r.seconds:
			r.seconds = min(2*r.seconds, maxRetryAfter)
		case r.count < r.seconds:
			r.seconds = max(r.seconds-1, 1)
		}
		r.since, r.count = now, 0
	}
	r.count++
	return r.seconds
}
