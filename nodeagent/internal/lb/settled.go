package lb

import "context"

// Settled waits until everything given to Update and Delete before the call is in the maps.
func (b *Balancer) Settled(ctx context.Context) error {
	done := make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, done)
	b.mu.Unlock()
	b.poke()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
