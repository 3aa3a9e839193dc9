package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// snapshots of paginated lists that are kept, and for how long.
const (
	maxSnapshots = 16
	snapshotAge  = 5 * time.Minute
)

type tree = btree.BTreeG[*codec.Item]

// Resource is the state of one kind.
type Resource struct {
	cache *Cache
	kind  *registry.Kind

	mu        sync.RWMutex
	items     map[string]*codec.Item
	sorted    *tree
	indexes   indexes
	last      int64 // revision of the newest change that is in
	ring      ring
	watchers  watchers
	snapshots []snapshot
	gone      bool // the kind is not served any more
	received  int  // events that were applied
	loads     int  // times that all was read anew
	size      int  // bytes of the stored objects
	reads     reads

	acknowledged atomic.Int64 // revision of the newest change that a client of this process knows of
}

type snapshot struct {
	revision int64
	sorted   *tree
	made     time.Time
}

func newResource(c *Cache, kind *registry.Kind) *Resource {
	return &Resource{
		cache: c, kind: kind,
		items:    map[string]*codec.Item{},
		sorted:   newTree(),
		watchers: newWatchers(),
		reads:    reads{group: kind.GVK.Group, resource: kind.Resource, indexed: tallies(kind.Indexed)},
	}
}

func newTree() *tree {
	return btree.NewG(32, func(a, b *codec.Item) bool { return a.Key < b.Key })
}

// replace voids everything and starts anew at a revision. Watches end: what they were told may not be true any more.
func (r *Resource) replace(items []*codec.Item, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = make(map[string]*codec.Item, len(items))
	r.sorted, r.indexes, r.size = newTree(), nil, 0
	for _, i := range items {
		r.size += i.Size()
		r.items[i.Key] = i
		r.sorted.ReplaceOrInsert(i)
	}
	r.last, r.snapshots = revision, nil
	r.ring.reset(revision)
	r.loads++
	r.reads.stored.add(len(items), len(items), len(items))
	r.watchers.end(&TooOldError{Oldest: revision})
}

func (r *Resource) apply(events []grouped, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		previous := r.items[e.Key]
		event := &Event{Previous: previous, Trace: e.Trace, Revision: e.Revision, Group: e.end, at: now}
		if e.Type == store.Removed {
			if previous == nil {
				continue
			}
			event.Type, event.Item = Deleted, previous.At(e.Revision)
			delete(r.items, e.Key)
			r.sorted.Delete(previous)
			r.indexes.change(previous, nil)
			r.size -= previous.Size()
		} else {
			event.Type = Modified
			if previous == nil {
				event.Type = Added
			}
			if event.Item = r.cache.hands.take(r.kind, e); event.Item == nil {
				event.Item = codec.NewItem(r.kind, e.Key, e.Value, e.Revision, e.CreateRevision)
			}
			if r.size += event.Item.Size(); previous != nil {
				r.size -= previous.Size()
			}
			r.items[e.Key] = event.Item
			r.sorted.ReplaceOrInsert(event.Item)
			r.indexes.change(previous, event.Item)
		}
		r.last = e.Revision
		r.received++
		r.ring.push(event)
		r.watchers.dispatch(event)
	}
	r.watchers.publish()
}

// coolAtOnce is how many items are looked at under one lock.
const coolAtOnce = 1000

// cool lets go of what was computed from items that nobody has used since the last time: lists decode and encode all they
// return, and what they leave is several times what is stored.
func (r *Resource) cool() {
	from := &codec.Item{}
	for more := true; more; {
		seen, last := 0, ""
		r.mu.RLock()
		r.sorted.AscendGreaterOrEqual(from, func(i *codec.Item) bool {
			i.Cool()
			seen++
			last = i.Key
			return seen < coolAtOnce
		})
		r.mu.RUnlock()
		more, from = seen == coolAtOnce, &codec.Item{Key: last + "\x00"}
	}
}

// Get returns the newest item of a key that the cache knows, or nil.
func (r *Resource) Get(key string) *codec.Item {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.items[key]
}

// Last returns the revision of the newest change of the kind that is in: while it stays, so does the state.
func (r *Resource) Last() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.last
}

// Len returns the number of objects.
func (r *Resource) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.items)
}

// Size returns the number of objects, and of the bytes that they are stored as.
func (r *Resource) Size() (objects, bytes int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.items), r.size
}

// Query selects items.
type Query struct {
	Namespace string
	// Name selects one object of the namespace, or of all namespaces.
	Name  string
	Label labels.Selector
	Field fields.Selector
	// Limit is the greatest number of items; 0 is no limit.
	Limit int64
	// After is the key behind which the page starts.
	After string
}

// Page is what a query selects, in key order.
type Page struct {
	Items    []*codec.Item
	Revision int64
	// Next is the key to continue after; empty at the end.
	Next string
	// Remaining is the number of items behind the page, -1 where it is not known because a selector filters.
	Remaining int64

	index  string // the field by which they were found; empty: by looking at all
	looked int    // items that were looked at
	stored bool   // it is from the database, of which read entries were read for it
	read   int
}

// List answers the query from the newest state. A page that has a next one is remembered, so that At can go on with it.
func (r *Resource) List(q Query) Page {
	r.prepare(q)
	r.mu.RLock()
	revision := r.revision()
	page := r.find(q)
	r.mu.RUnlock()
	page.Revision = revision
	if page.Next == "" {
		return page
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revision() == revision {
		r.remember(revision)
		return page
	}
	// The state moved on between the locks: take the page again from what is remembered.
	revision = r.revision()
	page = r.find(q)
	page.Revision = revision
	if page.Next != "" {
		r.remember(revision)
	}
	return page
}

// revision is the newest one of which everything that concerns this kind is in.
func (r *Resource) revision() int64 { return max(r.cache.applied.Load(), r.last) }

func (r *Resource) remember(revision int64) { r.rememberAs(revision, r.sorted) }

func (r *Resource) rememberAs(revision int64, state *tree) {
	now := r.cache.clock.Now()
	kept := r.snapshots[:0]
	for _, s := range r.snapshots {
		if s.revision == revision {
			return
		}
		if now.Sub(s.made) < snapshotAge {
			kept = append(kept, s)
		}
	}
	clear(r.snapshots[len(kept):])
	r.snapshots = append(kept, snapshot{revision, state.Clone(), now})
	if len(r.snapshots) > maxSnapshots {
		r.snapshots = append([]snapshot(nil), r.snapshots[1:]...)
	}
}

// At answers the query as of a revision: from memory where the state of then is still known, else from the store,
// which fails with store.ErrTooOld or store.ErrFuture.
func (r *Resource) At(ctx context.Context, q Query, revision int64) (Page, error) {
	r.mu.RLock()
	if r.last <= revision && revision <= r.revision() {
		// Nothing of this kind changed since.
		page := r.find(q)
		page.Revision = revision
		if page.Next == "" {
			r.mu.RUnlock()
			return page, nil
		}
		r.mu.RUnlock()
		r.mu.Lock()
		if r.last <= revision {
			r.remember(revision)
		}
		r.mu.Unlock()
		return page, nil
	}
	r.mu.RUnlock()
	if state := r.remembered(revision); state != nil {
		page := scan(state, r.kind, q)
		page.Revision = revision
		return page, nil
	}
	return past(ctx, r.cache, func(ctx context.Context) (Page, error) { return r.fromStore(ctx, q, revision) })
}

// remembered returns the snapshot of a revision, or nil.
func (r *Resource) remembered(revision int64) *tree {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range r.snapshots {
		if s.revision == revision {
			return s.sorted
		}
	}
	return nil
}

func (r *Resource) fromStore(ctx context.Context, q Query, revision int64) (Page, error) {
	var read int
	state := r.remembered(revision) // somebody may have read it while this one waited for its place
	stored := state == nil
	if stored {
		var err error
		if state, err = r.stateAt(ctx, revision); err != nil {
			return Page{}, err
		}
		read = state.Len()
	}
	page := scan(state, r.kind, q)
	page.Revision, page.stored, page.read = revision, stored, read
	if page.Next != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rememberAs(revision, state)
	}
	return page, nil
}

func (r *Resource) stateAt(ctx context.Context, revision int64) (*tree, error) {
	state := newTree()
	query := store.Query{Prefix: r.kind.Prefix(""), Revision: revision, Limit: loadPage}
	for {
		page, err := r.cache.source.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			state.ReplaceOrInsert(codec.NewItem(r.kind, e.Key, e.Value, e.Revision, e.CreateRevision))
		}
		if query.After = page.Next; page.Next == "" {
			return state, nil
		}
	}
}

// scan walks the state in key order.
func scan(state *tree, kind *registry.Kind, q Query) Page {
	var page Page
	if state.Len() == 0 {
		return page
	}
	if q.Name != "" && (q.Namespace != "" || !kind.Namespaced) {
		if i, ok := state.Get(&codec.Item{Key: kind.Key(q.Namespace, q.Name)}); ok && i.Matches(q.Label, q.Field) {
			page.Items = []*codec.Item{i}
		}
		page.looked = 1
		return page
	}
	prefix := kind.Prefix(q.Namespace)
	from := prefix
	if q.After != "" {
		from = max(prefix, q.After+"\x00")
	}
	selective := q.Label != nil || q.Field != nil || q.Name != ""
	if !selective && q.Limit == 0 && q.Namespace == "" && q.After == "" {
		page.Items = make([]*codec.Item, 0, state.Len())
	}
	last := lastOf(state, prefix)
	if last == nil || last.Key < from {
		return page
	}
	ended, marks := false, codec.MarksOf(q.Label)
	state.AscendGreaterOrEqual(&codec.Item{Key: from}, func(i *codec.Item) bool {
		if ended {
			return false
		}
		page.looked++
		ended = i == last // rather than look at every key: they lie far apart in memory
		if q.Limit > 0 && int64(len(page.Items)) == q.Limit {
			page.Next = page.Items[len(page.Items)-1].Key
			if selective { // whether what follows is selected, the next page tells
				page.Remaining = -1
				return false
			}
			page.Remaining++
			return true
		}
		if !q.selects(i, marks) {
			return true
		}
		page.Items = append(page.Items, i)
		return true
	})
	return page
}

// lastOf returns the last item whose key has a prefix, which ends in a slash, or nil.
func lastOf(state *tree, prefix string) (last *codec.Item) {
	// What follows the slash is not greater than the next byte value in its place.
	behind := prefix[:len(prefix)-1] + string(rune('/'+1))
	state.DescendLessOrEqual(&codec.Item{Key: behind}, func(i *codec.Item) bool {
		if i.Key == behind {
			return true
		}
		if strings.HasPrefix(i.Key, prefix) {
			last = i
		}
		return false
	})
	return last
}

// end ends all watches.
func (r *Resource) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers.end(err)
}

// IsTooOld reports whether the revision that was asked for is not known any more.
func IsTooOld(err error) bool {
	var old *TooOldError
	return errors.As(err, &old) || errors.Is(err, store.ErrTooOld)
}
