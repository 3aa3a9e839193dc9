package rbac

import (
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
)

// resources are the kinds that the index is made of.
var resources = [4]string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}

// Follower indexes what the watch cache holds. The index is made anew when somebody asks after a change: a decision
// sees every change that the cache has seen.
type Follower struct {
	caches  [4]*cache.Resource
	mu      sync.Mutex
	current atomic.Pointer[dated]
}

type dated struct {
	revisions [4]int64
	index     *Index
}

// Follow returns a follower of the table's roles and bindings.
func Follow(table *registry.Table, c *cache.Cache) *Follower {
	f := &Follower{}
	for _, k := range table.Kinds() {
		for i, name := range resources {
			if k.GVK.Group == rbacv1.GroupName && k.Resource == name {
				f.caches[i] = c.For(k)
			}
		}
	}
	return f
}

// Index implements Source.
func (f *Follower) Index() *Index {
	if d := f.current.Load(); d != nil && d.revisions == f.revisions() {
		return d.index
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.revisions()
	if d := f.current.Load(); d != nil && d.revisions == now {
		return d.index
	}
	// What is listed is at least as new as the revisions, so that nothing newer can be missed.
	d := &dated{revisions: now, index: NewIndex(State{
		Roles: objects[*rbacv1.Role](f.caches[0]), RoleBindings: objects[*rbacv1.RoleBinding](f.caches[1]),
		ClusterRoles: objects[*rbacv1.ClusterRole](f.caches[2]), ClusterRoleBindings: objects[*rbacv1.ClusterRoleBinding](f.caches[3]),
	})}
	f.current.Store(d)
	return d.index
}

func (f *Follower) revisions() (r [4]int64) {
	for i, c := range f.caches {
		if c != nil {
			r[i] = c.Last()
		}
	}
	return r
}

func objects[T registry.Object](c *cache.Resource) []T {
	if c == nil {
		return nil
	}
	page := c.List(cache.Query{})
	out := make([]T, 0, len(page.Items))
	for _, item := range page.Items {
		if obj, err := item.Object(); err == nil { // one that cannot be decoded grants nothing
			if t, ok := obj.(T); ok {
				out = append(out, t)
			}
		}
	}
	return out
}
