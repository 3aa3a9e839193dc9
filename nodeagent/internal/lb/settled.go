package lb

import (
	"context"

	"howdah.dev/nodeagent/internal/pending"
)

// Settled waits until everything given to Update and Delete before the call is in the maps.
func (b *Balancer) Settled(ctx context.Context) error {
	b.mu.Lock()
	done := b.waiting.Join()
	b.mu.Unlock()
	b.poke()
	return pending.Wait(ctx, done)
}
