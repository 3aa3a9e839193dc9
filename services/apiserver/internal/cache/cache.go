// Package cache holds the state of every kind in memory, fed by the store's log, and answers reads and watches from it.
//
// One goroutine applies the log; everything else reads. A resource's tree, ring and watchers change together under its
// lock, so a watch that starts from a list misses and repeats nothing.
package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	// freshWait is how long a read waits for a revision that it names, or for the first state.
	freshWait = 3 * time.Second
	// newestWait is how long one waits for the newest state, which unlike a revision that somebody names is sure to come.
	newestWait = 10 * time.Second
)

// loadPage is the number of entries that are read from the store at a time.
const loadPage = 5000

// Source is what the cache needs of the store.
type Source interface {
	store.Reader
	store.Tailer
	store.Replayer
}

// Observer follows the keys under a prefix: of one kind, or of none.
type Observer interface {
	// Reset replaces everything that is known by the given keys.
	Reset(keys []string)
	// Apply tells of one change.
	Apply(key string, removed bool)
}

// Definitions follows the objects that define kinds, and keeps the table's custom kinds as they say.
type Definitions interface {
	// Prefix is that of the keys of definitions.
	Prefix() string
	// Reset replaces all definitions; Apply tells of one that came or changed (item), or went (nil).
	Reset(items []*codec.Item)
	Apply(key string, item *codec.Item)
}

// BehindError says that the cache did not reach a revision in time.
type BehindError struct{ Wanted, Current int64 }

// Error names both revisions.
func (e *BehindError) Error() string {
	return fmt.Sprintf("cache is at revision %d, %d was asked for", e.Current, e.Wanted)
}

// ErrBehind answers reads of the newest state by a cache that does not get it in time. Retriable.
var ErrBehind = errors.New("the newest state has not arrived in time")

// ErrLoading answers reads of a cache that has not got its first state yet. Retriable.
var ErrLoading = errors.New("the first state is not loaded yet")

// Cache is the state of all kinds.
type Cache struct {
	source      Source
	table       *registry.Table
	clock       clock.WithTicker
	resources   atomic.Pointer[resources]
	observers   map[string]Observer
	followed    map[*registry.Kind]Observer
	definitions Definitions

	hands    hands
	segments codec.Segments
	past     chan struct{} // a place for each read of the store's past
	replays  replayMetrics
	waits    *prometheus.HistogramVec
	applied  atomic.Int64
	ready    chan struct{}
	once     sync.Once

	mu      sync.Mutex
	waiters []waiter
}

// resources are the caches of all kinds, by kind (of a custom one, by its home) and by the prefix of its keys. They are
// replaced as a whole when custom kinds come or go.
type resources struct {
	byKind   map[*registry.Kind]*Resource
	byPrefix map[string]*Resource
}

type waiter struct {
	revision int64
	done     chan struct{}
}

// New returns an empty cache; Run fills it. Observers are by key prefix.
func New(source Source, table *registry.Table, clock clock.WithTicker, observers map[string]Observer) *Cache {
	c := &Cache{source: source, table: table, clock: clock, observers: observers, followed: map[*registry.Kind]Observer{}, ready: make(chan struct{}),
		past: make(chan struct{}, pastReads), replays: newReplayMetrics(), waits: newWaits()}
	all := &resources{map[*registry.Kind]*Resource{}, map[string]*Resource{}}
	for _, k := range table.Kinds() {
		all.add(newResource(c, k))
		if o := observers[k.Prefix("")]; o != nil {
			c.followed[k] = o
		}
	}
	c.resources.Store(all)
	return c
}

// Define makes the cache tell d of definitions. It must be called before Run.
func (c *Cache) Define(d Definitions) { c.definitions = d }

func (r *resources) add(resource *Resource) {
	r.byKind[resource.kind] = resource
	r.byPrefix[resource.kind.Prefix("")] = resource
}

// For returns the cache of one kind. That of a custom kind which is not there any more is empty, and its watches end at once.
func (c *Cache) For(kind *registry.Kind) *Resource {
	all := c.resources.Load()
	if r := all.byKind[kind]; r != nil {
		return r
	}
	if r := all.byPrefix[kind.Prefix("")]; r != nil {
		return r
	}
	gone := newResource(c, kind)
	gone.gone = true
	gone.reads.closed.Store(true)
	return gone
}

// Ready is closed when the first state stands.
func (c *Cache) Ready() <-chan struct{} { return c.ready }

// Segments returns the compressed parts of lists that are kept.
func (c *Cache) Segments() *codec.Segments { return &c.segments }

// Applied returns the revision that the whole cache has reached.
func (c *Cache) Applied() int64 { return c.applied.Load() }

// Run keeps the cache up to date until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	defer c.endAll(errors.New("the server is shutting down"))
	aging := make(chan struct{})
	defer func() { <-aging }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { defer close(aging); c.age(ctx) }()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		revision, err := c.load(ctx)
		if err == nil {
			wait = 50 * time.Millisecond
			c.once.Do(func() { close(c.ready) })
			err = c.source.Tail(ctx, revision, func(events []store.Event) error { return c.apply(ctx, events) })
		}
		if ctx.Err() != nil {
			return nil
		}
		slog.WarnContext(ctx, "rebuild the cache", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// age lets the memory of past events go, which would otherwise wait for the next event.
func (c *Cache) age(ctx context.Context) {
	ticker := c.clock.NewTicker(coolAfter)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			c.segments.Age()
			for _, r := range c.resources.Load().byKind {
				r.mu.Lock()
				r.ring.age(c.clock.Now())
				if r.kind.Bulky {
					for _, item := range r.items {
						item.Trim()
					}
				}
				r.mu.Unlock()
				r.cool()
			}
		}
	}
}

// load replaces the state by the store's newest one and returns its revision.
func (c *Cache) load(ctx context.Context) (int64, error) {
	items := map[*registry.Kind][]*codec.Item{}
	keys := map[string][]string{}
	var definitions []*codec.Item
	var unknown []store.Entry // objects of custom kinds, perhaps
	query := store.Query{Limit: loadPage}
	for {
		page, err := c.source.List(ctx, query)
		if err != nil {
			return 0, fmt.Errorf("load the cache: %w", err)
		}
		for _, e := range page.Entries {
			if kind := c.table.KindOf(e.Key); kind != nil && kind.Custom == nil {
				item := codec.NewItem(kind, e.Key, e.Value, e.Revision, e.CreateRevision)
				items[kind] = append(items[kind], item)
				if c.followed[kind] != nil {
					prefix := kind.Prefix("")
					keys[prefix] = append(keys[prefix], e.Key)
				}
				if c.defines(e.Key) {
					definitions = append(definitions, item)
				}
			} else if prefix := c.observed(e.Key); prefix != "" {
				keys[prefix] = append(keys[prefix], e.Key)
			} else {
				unknown = append(unknown, e)
			}
		}
		query.Revision, query.After = page.Revision, page.Next
		if page.Next == "" {
			break
		}
	}
	for prefix, o := range c.observers {
		o.Reset(keys[prefix])
	}
	if c.definitions != nil {
		c.definitions.Reset(definitions)
	}
	for _, e := range unknown {
		if kind := c.table.KindOf(e.Key); kind != nil {
			items[kind] = append(items[kind], codec.NewItem(kind, e.Key, e.Value, e.Revision, e.CreateRevision))
		}
	}
	_, gone := c.adopt()
	for _, r := range gone {
		r.leave()
	}
	for kind, r := range c.resources.Load().byKind {
		r.replace(items[kind], query.Revision)
	}
	c.refill(ctx, query.Revision)
	c.advance(query.Revision)
	return query.Revision, nil
}

func (c *Cache) observed(key string) string {
	for prefix := range c.observers {
		if len(key) > len(prefix) && key[:len(prefix)] == prefix {
			return prefix
		}
	}
	return ""
}

// apply takes a piece of the log, which never ends inside an atomic group.
func (c *Cache) apply(ctx context.Context, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	now := c.clock.Now()
	ends := groupEnds(events)
	for start := 0; start < len(events); {
		// What follows a definition may be of the kind that it defines.
		end := start
		for end < len(events) && !c.defines(events[end].Key) {
			end++
		}
		last := end
		if end < len(events) {
			last = end + 1
		}
		c.applyTo(events[start:last], ends[start:last], now)
		if end < len(events) {
			if err := c.define(ctx, events[end]); err != nil {
				return err
			}
		}
		start = last
	}
	c.advance(events[len(events)-1].Revision)
	return nil
}

func (c *Cache) applyTo(events []store.Event, ends []int64, now time.Time) {
	groups := map[*registry.Kind][]grouped{}
	var order []*registry.Kind
	for n, e := range events {
		kind := c.table.KindOf(e.Key)
		if kind == nil {
			if prefix := c.observed(e.Key); prefix != "" {
				c.observers[prefix].Apply(e.Key, e.Type == store.Removed)
			}
			continue
		}
		if o := c.followed[kind]; o != nil {
			o.Apply(e.Key, e.Type == store.Removed)
		}
		if _, seen := groups[kind]; !seen {
			order = append(order, kind)
		}
		groups[kind] = append(groups[kind], grouped{e, ends[n]})
	}
	all := c.resources.Load()
	for _, kind := range order {
		if r := all.byPrefix[kind.Prefix("")]; r != nil {
			r.apply(groups[kind], now)
		}
	}
}

// grouped is an event and the revision that ends its atomic group.
type grouped struct {
	store.Event
	end int64
}

func groupEnds(events []store.Event) []int64 {
	ends := make([]int64, len(events))
	end := events[len(events)-1].Revision
	for n := len(events) - 1; n >= 0; n-- {
		if events[n].Last {
			end = events[n].Revision
		}
		ends[n] = end
	}
	return ends
}

func (c *Cache) advance(revision int64) {
	c.applied.Store(revision)
	c.hands.forget(revision)
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.waiters[:0]
	for _, w := range c.waiters {
		if w.revision <= revision {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(c.waiters[len(kept):])
	c.waiters = kept
}

// WaitFor waits until the cache has reached the revision, for 3 s at most: then it fails with a *BehindError.
func (c *Cache) WaitFor(ctx context.Context, revision int64) error {
	return c.await(ctx, revision, freshWait)
}

func (c *Cache) await(ctx context.Context, revision int64, patience time.Duration) error {
	if c.applied.Load() >= revision {
		return nil
	}
	w := waiter{revision, make(chan struct{})}
	c.mu.Lock()
	if c.applied.Load() >= revision {
		c.mu.Unlock()
		return nil
	}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case <-w.done:
		return nil
	case <-timer.C:
		current := c.applied.Load()
		switch {
		case !c.loaded():
			err = ErrLoading
		case current < revision: // where it has just arrived there is nothing to complain of
			err = &BehindError{Wanted: revision, Current: current}
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.waiters {
		if c.waiters[i].done == w.done {
			c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
			break
		}
	}
	return err
}

func (c *Cache) loaded() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// Loaded waits for the first state, for 3 s at most: then it fails with ErrLoading.
func (c *Cache) Loaded(ctx context.Context) error {
	if c.loaded() {
		return nil
	}
	timer := time.NewTimer(freshWait)
	defer timer.Stop()
	select {
	case <-c.ready:
		return nil
	case <-timer.C:
		return ErrLoading
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recentWait is how long a read of any state waits for the newest one.
const recentWait = 250 * time.Millisecond

// Recent is Loaded, and waits for what was committed before the call where that can be had soon: whoever has written over one server does not miss it over
// another. Where it cannot, as while the store is away, any state will do.
func (c *Cache) Recent(ctx context.Context) error {
	if err := c.Loaded(ctx); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, recentWait)
	defer cancel()
	_ = c.Fresh(soon) // that it fails is no reason to refuse an older state
	return ctx.Err()
}

// Fresh waits until the cache has everything that was committed before the call, for 10 s at most: then it fails with ErrBehind.
func (c *Cache) Fresh(ctx context.Context) error {
	revision, err := c.source.Revision(ctx)
	if err != nil {
		return err
	}
	err = c.await(ctx, revision, newestWait)
	if behind := (*BehindError)(nil); errors.As(err, &behind) {
		return fmt.Errorf("%w: %w", ErrBehind, err)
	}
	return err
}

func (c *Cache) endAll(err error) {
	for _, r := range c.resources.Load().byKind {
		r.end(err)
	}
}
