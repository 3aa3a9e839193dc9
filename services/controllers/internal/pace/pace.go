// Package pace keeps a large object from being reconciled anew for each of
// the thousands of things that belong to it.
package pace

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// from is the number of members from which an object is paced.
	from = 100
	// perMember is how long a paced object rests after a reconcile, a member:
	// 5,000 pods are counted, and the count written, four times a second.
	perMember = 50 * time.Microsecond
)

// Pace remembers when objects may be reconciled again. Small ones, and ones
// whose generation has changed, never wait.
type Pace struct {
	mu   sync.Mutex
	next map[types.UID]rest
}

type rest struct {
	generation int64
	until      time.Time
}

// New returns a Pace at which nothing rests.
func New() *Pace { return &Pace{next: map[types.UID]rest{}} }

// Wait returns how long the object must rest; 0 is not at all.
func (p *Pace) Wait(uid types.UID, generation int64, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.next[uid]
	if !ok || r.generation != generation {
		return 0
	}
	return max(0, r.until.Sub(now))
}

// Ran notes that an object of so many members was reconciled.
func (p *Pace) Ran(uid types.UID, generation int64, members int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if members < from {
		delete(p.next, uid)
		return
	}
	p.next[uid] = rest{generation, now.Add(time.Duration(members) * perMember)}
}

// Forget drops an object that is gone.
func (p *Pace) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, uid)
}
