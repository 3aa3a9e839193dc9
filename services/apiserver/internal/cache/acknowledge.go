package cache

import "context"

// Acknowledge notes that a client of this process is told of a change at a revision.
func (r *Resource) Acknowledge(revision int64) {
	for {
		known := r.acknowledged.Load()
		if known >= revision || r.acknowledged.CompareAndSwap(known, revision) {
			return
		}
	}
}

// Acknowledged waits until all changes are in that clients of this process have been told of, as WaitFor does. Whoever decides by
// what a kind has then knows what the client does who asks.
func (r *Resource) Acknowledged(ctx context.Context) error {
	return r.cache.WaitFor(ctx, r.acknowledged.Load())
}

// Defined waits until all definitions are in that clients of this process have been told of, as Acknowledged does for the objects of a
// kind.
func (c *Cache) Defined(ctx context.Context) error {
	if c.definitions == nil {
		return nil
	}
	if r := c.resources.Load().byPrefix[c.definitions.Prefix()]; r != nil {
		return r.Acknowledged(ctx)
	}
	return nil
}
