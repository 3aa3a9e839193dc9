package objects

import (
	"context"
	"sync"
)

// turns let writes of one object that have collided land one after another: each then plans on what the one before it committed. Otherwise one of those that
// plan at the same time lands, and all others plan again, so that of many some never land.
//
// Kubernetes, too, repeats a write that names no resourceVersion until it lands. Of several API servers, each has turns of its own: as many writes of an object
// collide as there are servers. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line // by key; of objects whose writes collide at present
}

// line is who wants to write one object.
type line struct {
	turn chan struct{} // of size 1: has room when it is nobody's turn
	// members have the turn or wait for it; guarded by turns.mu.
	members int
	// landed is the revision of the last write that landed, and belongs to whoever has the turn.
	landed int64
}

// turn is a place in a line.
type turn struct {
	of   *turns
	key  string
	line *line
}

// join waits for the turn where writes of the object collide; nil: they do not.
func (t *turns) join(ctx context.Context, key string) (*turn, error) {
	t.mu.Lock()
	l := t.lines[key]
	if l == nil {
		t.mu.Unlock()
		return nil, nil
	}
	l.members++
	t.mu.Unlock()
	return t.wait(ctx, key, l)
}

// take waits for the turn after a collision.
func (t *turns) take(ctx context.Context, key string) (*turn, error) {
	t.mu.Lock()
	l := t.lines[key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		if t.lines == nil {
			t.lines = map[string]*line{}
		}
		t.lines[key] = l
	}
	l.members++
	t.mu.Unlock()
	return t.wait(ctx, key, l)
}

func (t *turns) wait(ctx context.Context, key string, l *line) (*turn, error) {
	select {
	case l.turn <- struct{}{}:
		return &turn{t, key, l}, nil
	case <-ctx.Done():
		t.forget(key, l)
		return nil, ctx.Err()
	}
}

func (t *turns) forget(key string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.members--; l.members == 0 {
		delete(t.lines, key)
	}
}

// leave passes the turn on. Without a turn, it does nothing.
func (t *turn) leave() {
	if t != nil {
		<-t.line.turn
		t.of.forget(t.key, t.line)
	}
}

// land notes at which revision the write landed whose turn it was. Without a turn, it does nothing.
func (t *turn) land(revision int64) {
	if t != nil {
		t.line.landed = revision
	}
}
