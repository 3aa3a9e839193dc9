// Package turn has callers take turns, by the name of what they do something with.
package turn

import (
	"context"
	"sync"
)

// Turns are those of one set of names. The zero value is ready.
type Turns struct {
	mu    sync.Mutex
	names map[string]*queue
}

// queue is who has a name's turn, and how many have it or wait for it.
type queue struct {
	held  chan struct{}
	users int
}

// Take waits until nobody else has the name's turn. Who has it gives it back with end.
func (t *Turns) Take(ctx context.Context, name string) (end func(), err error) {
	q := t.join(name)
	select {
	case q.held <- struct{}{}:
		return func() { <-q.held; t.leave(name, q) }, nil
	case <-ctx.Done():
		t.leave(name, q)
		return nil, ctx.Err()
	}
}

func (t *Turns) join(name string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]*queue{}
	}
	q := t.names[name]
	if q == nil {
		q = &queue{held: make(chan struct{}, 1)}
		t.names[name] = q
	}
	q.users++
	return q
}

func (t *Turns) leave(name string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(t.names, name)
	}
}
