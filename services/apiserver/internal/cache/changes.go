package cache

import (
	"context"
	"sync"
)

// Changes tell that something within a scope may have changed, whatever it is: once for any number of changes.
type Changes struct {
	resource *Resource
	scope    Scope
	watcher  *Watcher
}

// Changes begin behind the present state. Whoever is done with them stops them.
func (r *Resource) Changes(scope Scope) *Changes {
	c := &Changes{resource: r, scope: scope}
	c.begin()
	return c
}

func (c *Changes) begin() { c.watcher, _ = c.resource.WatchList(c.scope, Query{Limit: 1}) }

// Signal fires when there is something to Drain. The channel is another one after each Drain.
func (c *Changes) Signal() <-chan struct{} { return c.watcher.Signal() }

// Drain forgets what there was. After it fell behind, it begins anew: what changed in between belongs to the same signal.
func (c *Changes) Drain() {
	if _, err := c.watcher.Take(); err != nil {
		c.watcher.Stop()
		c.begin()
	}
}

// Stop ends them.
func (c *Changes) Stop() { c.watcher.Stop() }

// Notify fires `to`, which has room for one, whenever some of the changes do, until ctx ends; then it has stopped them.
func Notify(ctx context.Context, to chan<- struct{}, changes ...*Changes) {
	var running sync.WaitGroup
	for _, c := range changes {
		running.Go(func() {
			defer c.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-c.Signal():
				}
				c.Drain()
				select {
				case to <- struct{}{}:
				default:
				}
			}
		})
	}
	running.Wait()
}
