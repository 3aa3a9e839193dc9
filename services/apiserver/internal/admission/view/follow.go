package view

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
)

// Followed is something that is made of all objects of some kinds, and made anew when somebody asks after one of them has
// changed: whoever asks sees every change that the cache has seen.
type Followed[T any] struct {
	ready   <-chan struct{}
	caches  []*cache.Resource
	make    func(objects [][]registry.Object, before T) T
	mu      sync.Mutex
	current atomic.Pointer[dated[T]]
}

type dated[T any] struct {
	revisions []int64
	value     T
}

// Follow follows the named resources of a group. make is given their objects in the order of their names, and what it made before.
func Follow[T any](table *registry.Table, c *cache.Cache, group string, resources []string, make func(objects [][]registry.Object, before T) T) *Followed[T] {
	f := &Followed[T]{make: make, ready: c.Ready()}
	for _, name := range resources {
		for _, k := range table.Kinds() {
			if k.GVK.Group == group && k.Resource == name {
				f.caches = append(f.caches, c.For(k))
			}
		}
	}
	return f
}

// Ready reports whether the first objects are known: before that nobody can say what is configured.
func (f *Followed[T]) Ready() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// readyWait is how long a write waits for what is configured to be known: while an apiserver starts, nobody is refused who need
// only wait.
const readyWait = 5 * time.Second

// Await waits for Ready. It fails with 503.
func (f *Followed[T]) Await(ctx context.Context) error {
	if f.Ready() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	select {
	case <-f.ready:
		return nil
	case <-ctx.Done():
		return apierrors.NewServiceUnavailable("not yet ready to handle request")
	}
}

// Get returns what was made of the newest objects.
func (f *Followed[T]) Get() T {
	if d := f.current.Load(); d != nil && f.still(d) {
		return d.value
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.current.Load()
	if before != nil && f.still(before) {
		return before.value
	}
	d := &dated[T]{revisions: make([]int64, len(f.caches))}
	objects := make([][]registry.Object, len(f.caches))
	for i, c := range f.caches { // what is listed is at least as new as the revision
		d.revisions[i] = c.Last()
		objects[i] = list(c)
	}
	var last T
	if before != nil {
		last = before.value
	}
	d.value = f.make(objects, last)
	f.current.Store(d)
	return d.value
}

func (f *Followed[T]) still(d *dated[T]) bool {
	for i, c := range f.caches {
		if c.Last() != d.revisions[i] {
			return false
		}
	}
	return true
}

func list(c *cache.Resource) []registry.Object {
	page := c.List(cache.Query{})
	out := make([]registry.Object, 0, len(page.Items))
	for _, item := range page.Items {
		if obj, err := item.Object(); err == nil {
			out = append(out, obj)
		}
	}
	slices.SortFunc(out, func(a, b registry.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}
