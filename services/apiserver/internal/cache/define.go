package cache

import (
	"context"
	"fmt"
	"strings"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// defines reports whether a key is that of a definition.
func (c *Cache) defines(key string) bool {
	return c.definitions != nil && strings.HasPrefix(key, c.definitions.Prefix())
}

// define takes over what a change of a definition makes of the table. The objects of a kind that is new are read from the
// store as of the change: there may be some already, of an earlier definition.
func (c *Cache) define(ctx context.Context, e store.Event) error {
	var item *codec.Item
	if e.Type != store.Removed {
		item = c.resources.Load().byPrefix[c.definitions.Prefix()].Get(e.Key)
	}
	c.definitions.Apply(e.Key, item)
	fresh, gone := c.adopt()
	for _, r := range gone {
		r.leave()
	}
	for _, r := range fresh {
		if err := r.fill(ctx, e.Revision); err != nil {
			return fmt.Errorf("read the objects of %s: %w", r.kind.GVK, err)
		}
	}
	return nil
}

// adopt makes the resources those of the table's kinds, and returns those that came and those that went. One whose kind
// changed stays; its watches end, since what they are told may look different from now on.
func (c *Cache) adopt() (fresh, gone []*Resource) {
	old := c.resources.Load()
	next := &resources{map[*registry.Kind]*Resource{}, map[string]*Resource{}}
	changed := len(c.table.Kinds()) != len(old.byKind)
	for _, kind := range c.table.Kinds() {
		r := old.byKind[kind]
		if r == nil {
			changed = true
			if r = old.byPrefix[kind.Prefix("")]; r == nil {
				r = newResource(c, kind)
				fresh = append(fresh, r)
			} else {
				r.become(kind)
			}
		}
		next.byKind[kind], next.byPrefix[kind.Prefix("")] = r, r
	}
	if !changed {
		return nil, nil
	}
	for prefix, r := range old.byPrefix {
		if next.byPrefix[prefix] == nil {
			gone = append(gone, r)
		}
	}
	c.resources.Store(next)
	return fresh, gone
}

// become makes the items those of another kind with the same keys.
func (r *Resource) become(kind *registry.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = kind
	sorted := newTree()
	for key, i := range r.items {
		i = codec.NewItem(kind, key, i.Value(), i.Revision, i.CreateRevision)
		r.items[key] = i
		sorted.ReplaceOrInsert(i)
	}
	r.sorted, r.indexes, r.snapshots = sorted, nil, nil
	r.watchers.end(ErrGone)
}

// leave ends the watches of a kind that is not served any more.
func (r *Resource) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	r.watchers.end(ErrGone)
	r.reads.closed.Store(true)
	r.cache.waits.DeleteLabelValues(r.kind.GVK.Group, r.kind.Resource)
}

// fill reads the objects as of a revision.
func (r *Resource) fill(ctx context.Context, revision int64) error {
	var items []*codec.Item
	query := store.Query{Prefix: r.kind.Prefix(""), Revision: revision, Limit: loadPage}
	for {
		page, err := r.cache.source.List(ctx, query)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			items = append(items, codec.NewItem(r.kind, e.Key, e.Value, e.Revision, e.CreateRevision))
		}
		if query.After = page.Next; page.Next == "" {
			break
		}
	}
	r.replace(items, revision)
	return nil
}
