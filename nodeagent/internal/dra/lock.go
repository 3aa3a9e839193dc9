package dra

import (
	"context"
	"slices"
	"sync"
)

// locks let one pod at a time have a claim prepared or taken back.
type locks struct {
	mu    sync.Mutex
	taken map[key]chan struct{} // closed when it is free again
}

// take waits for all keys, or until ctx ends. Everybody takes them in the same order.
func (l *locks) take(ctx context.Context, keys []key) (release func(), err error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	got := 0
	release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, k := range keys[:got] {
			close(l.taken[k])
			delete(l.taken, k)
		}
	}
	for got < len(keys) {
		l.mu.Lock()
		free, taken := l.taken[keys[got]]
		if !taken {
			l.taken[keys[got]] = make(chan struct{})
			got++
		}
		l.mu.Unlock()
		if !taken {
			continue
		}
		select {
		case <-free:
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}
