package member

import (
	"context"
	"log/slog"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"howdah.dev/kit/object"
	"howdah.dev/services/federation/api"
)

// follow is a cache of the objects of one kind that were carried to the member.
type follow struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	done     chan struct{}
	problem  atomic.Pointer[error] // why it does not fill
}

// Follow begins to follow a kind, where it is not followed yet.
func (m *Member) Follow(ctx context.Context, gvk schema.GroupVersionKind) error {
	m.mu.Lock()
	known := m.follows[gvk] != nil
	m.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := m.resource(ctx, gvk)
	if err != nil {
		return err
	}
	f := m.newFollow(gvk, m.objects.Resource(gvk.GroupVersion().WithResource(r.Name)))
	run, stop := context.WithCancel(context.Background()) // until Close or Unfollow
	f.stop = stop
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.follows[gvk] != nil || m.closed {
		stop()
		return nil
	}
	m.follows[gvk] = f
	go func() {
		defer close(f.done)
		f.informer.RunWithContext(run)
	}()
	return nil
}

func (m *Member) newFollow(gvk schema.GroupVersionKind, objects dynamic.NamespaceableResourceInterface) *follow {
	carried := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = api.ManagedLabel + "=true"; return o }
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, carried(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, carried(o))
		},
	}
	f := &follow{informer: cache.NewSharedIndexInformer(listing{source}, &unstructured.Unstructured{}, 0, cache.Indexers{}), done: make(chan struct{})}
	_ = f.informer.SetTransform(slim) // fails only once it runs, as below
	_ = f.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		f.problem.Store(&err)
		slog.DebugContext(ctx, "a member's objects are not followed", "cluster", m.name, "kind", gvk.Kind, "err", err)
	})
	tell := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if live, ok := o.(*unstructured.Unstructured); ok {
			id := idOf(live)
			id.GVK = gvk
			m.changed(id)
		}
	}
	_, _ = f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell})
	return f
}

// listing makes the reflector list and then watch, as other servers than the newest have it.
type listing struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by the reflector.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// slim drops what is not looked at: of the managed fields, all but who scales.
func slim(o any) (any, error) {
	live, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	var scaled []metav1.ManagedFieldsEntry
	for _, f := range live.GetManagedFields() {
		if f.Subresource == "scale" {
			scaled = append(scaled, f)
		}
	}
	live.SetManagedFields(scaled)
	return live, nil
}

// Unfollow ends all caches: those that are begun anew show what is there now.
func (m *Member) Unfollow() {
	m.mu.Lock()
	follows := m.follows
	m.follows = map[schema.GroupVersionKind]*follow{}
	m.namespaces = map[string]bool{}
	clear(m.resources)
	m.mu.Unlock()
	for _, f := range follows {
		f.stop()
	}
	for _, f := range follows {
		<-f.done
	}
}

// StopFollowing ends the cache of a kind.
func (m *Member) StopFollowing(gvk schema.GroupVersionKind) {
	m.mu.Lock()
	f := m.follows[gvk]
	delete(m.follows, gvk)
	m.mu.Unlock()
	if f != nil {
		f.stop()
		<-f.done
	}
}

// Live returns what was carried, as the cache has it; nil where there is none. synced is false while the cache does not know.
func (m *Member) Live(id api.ID) (live *unstructured.Unstructured, synced bool) {
	m.mu.Lock()
	f := m.follows[id.GVK]
	m.mu.Unlock()
	if f == nil || !f.informer.HasSynced() {
		return nil, false
	}
	o, ok, err := f.informer.GetStore().GetByKey(object.Key(id.Namespace, id.Name))
	if err != nil || !ok {
		return nil, err == nil
	}
	return o.(*unstructured.Unstructured), true
}

// Problem says why a kind's cache does not fill; nil where it does, or where that is not known.
func (m *Member) Problem(gvk schema.GroupVersionKind) error {
	m.mu.Lock()
	f := m.follows[gvk]
	m.mu.Unlock()
	if f == nil || f.informer.HasSynced() {
		return nil
	}
	if problem := f.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// All returns what was carried of a kind, as Live does.
func (m *Member) All(gvk schema.GroupVersionKind) (all []*unstructured.Unstructured, synced bool) {
	m.mu.Lock()
	f := m.follows[gvk]
	m.mu.Unlock()
	if f == nil || !f.informer.HasSynced() {
		return nil, false
	}
	for _, o := range f.informer.GetStore().List() {
		all = append(all, o.(*unstructured.Unstructured))
	}
	return all, true
}
