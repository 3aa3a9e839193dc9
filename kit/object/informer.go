package object

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Informers holds one informer a kind, so that the parts of a service share
// caches. Make informers first, then Run.
type Informers struct {
	client *Client
	pace   pace

	mu      sync.Mutex
	byKey   map[string]any
	started bool
	run     []func(ctx context.Context)
	synced  []cache.InformerSynced
	catchUp []func(ctx context.Context) error
}

// NewInformers returns an empty set.
func NewInformers(client *Client) *Informers {
	return &Informers{client: client, pace: pace{changed: make(chan struct{})}, byKey: map[string]any{}}
}

// Option narrows or extends an informer.
type Option struct {
	// FieldSelector and LabelSelector narrow what is followed.
	FieldSelector, LabelSelector string
	// Indexers add look-ups for ByIndex.
	Indexers cache.Indexers
	// Slim takes out of objects, before they are cached, what is not needed of them. It may set their fields and those of their metadata,
	// but must not write through what these point to. It is not called for whole objects that a server in the same process has as
	// well: they are cached as they are, and take no memory of their own.
	Slim func(Object)
}

// slim calls Slim, where there is one, for what is an object.
func (o Option) slim(item runtime.Object) {
	if obj, ok := item.(Object); ok && o.Slim != nil {
		o.Slim(obj)
	}
}

// Informer is a cache of one kind that follows the API.
type Informer[T Object] struct {
	client *Client
	kind   Kind[T]
	option Option
	shared cache.SharedIndexInformer
	traces *traces
}

// InformerFor returns the set's informer of a kind. Calls with the same
// selectors share one; indexers are added to it. It panics if the set runs
// already, since what it returns would never fill.
func InformerFor[T Object](set *Informers, kind Kind[T], options ...Option) *Informer[T] {
	var o Option
	if len(options) > 0 {
		o = options[0]
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.started {
		panic("object: an informer was asked for after its set had started")
	}
	key := kind.GVK.String() + "|" + kind.Resource + "|" + o.FieldSelector + "|" + o.LabelSelector
	if isMetadata(kind.New()) {
		key += "|metadata"
	}
	inf, ok := set.byKey[key].(*Informer[T])
	if !ok {
		inf = newInformer(set.client, kind, o, &set.pace)
		set.byKey[key] = inf
		set.run = append(set.run, inf.shared.RunWithContext)
		set.synced = append(set.synced, inf.shared.HasSynced)
		set.catchUp = append(set.catchUp, inf.CatchUp)
	}
	if len(o.Indexers) > 0 {
		if err := inf.shared.AddIndexers(o.Indexers); err != nil {
			panic("object: " + err.Error())
		}
	}
	return inf
}

func newInformer[T Object](client *Client, kind Kind[T], o Option, pace *pace) *Informer[T] {
	inf := &Informer[T]{client: client, kind: kind, option: o, traces: &traces{}}
	source := &source[T]{For(client, kind), o, inf.traces, pace}
	inf.shared = cache.NewSharedIndexInformer(source, kind.New(), 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return inf
}

// Run follows the API until ctx ends, also where there is nothing to follow:
// its end ends the parts beside it.
func (s *Informers) Run(ctx context.Context) error {
	defer s.Wake()
	s.mu.Lock()
	s.started = true
	parts := s.run
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
	<-ctx.Done()
	return ctx.Err()
}

// Wait returns when every informer has its first full picture, or false when
// ctx ends before.
func (s *Informers) Wait(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), s.synced...)
}

// Get returns a cached object; it must not be changed. namespace is "" for
// cluster-scoped kinds.
func (i *Informer[T]) Get(namespace, name string) (T, bool) {
	return i.GetKey(Key(namespace, name))
}

// GetKey returns the cached object of a "namespace/name" key.
func (i *Informer[T]) GetKey(key string) (T, bool) {
	obj, ok, _ := i.shared.GetStore().GetByKey(key)
	if !ok {
		var none T
		return none, false
	}
	return obj.(T), true
}

// List returns the cached objects of a namespace, of all for "".
func (i *Informer[T]) List(namespace string) []T {
	if namespace != "" {
		return i.ByIndex(cache.NamespaceIndex, namespace)
	}
	return typed[T](i.shared.GetStore().List())
}

// ByIndex returns the cached objects that an indexer filed under value.
func (i *Informer[T]) ByIndex(index, value string) []T {
	objects, err := i.shared.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic("object: " + err.Error()) // an index that nobody made
	}
	return typed[T](objects)
}

// Filed returns how many cached objects an indexer filed under value.
func (i *Informer[T]) Filed(index, value string) int {
	keys, err := i.shared.GetIndexer().IndexKeys(index, value)
	if err != nil {
		panic("object: " + err.Error()) // an index that nobody made
	}
	return len(keys)
}

func typed[T Object](objects []any) []T {
	result := make([]T, 0, len(objects))
	for _, o := range objects {
		result = append(result, o.(T))
	}
	return result
}

// HasSynced reports whether the first full picture stands.
func (i *Informer[T]) HasSynced() bool { return i.shared.HasSynced() }

// AddHandler calls change for every change, in order, on one goroutine: old
// is nil for a new object, new is nil for a deleted one.
func (i *Informer[T]) AddHandler(change func(old, new T)) {
	var none T
	_, _ = i.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only on a stopped informer
		AddFunc:    func(obj any) { change(none, obj.(T)) },
		UpdateFunc: func(old, obj any) { change(old.(T), obj.(T)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			change(obj.(T), none)
		},
	})
}

// Trace returns the span context of the request that last changed the
// object, not valid where it was not traced or is not known.
func (i *Informer[T]) Trace(obj T) trace.SpanContext {
	return i.traces.get(obj)
}

// Key returns "namespace/name", or "name" for cluster-scoped objects.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) string { return Key(obj.GetNamespace(), obj.GetName()) }

// source lists and watches one kind for an informer.
type source[T Object] struct {
	resource Resource[T]
	option   Option
	traces   *traces
	pace     *pace
}

// IsWatchListSemanticsUnSupported makes the reflector list in chunks and
// then watch: one unary-like stream costs less than an event an object.
func (s *source[T]) IsWatchListSemanticsUnSupported() bool { return true }

func (s *source[T]) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *source[T]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

func (s *source[T]) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	options.LabelSelector, options.FieldSelector = s.option.LabelSelector, s.option.FieldSelector
	options.Limit = 0 // the stream is chunked; pages would cost consistency
	list, err := s.resource.list(untraced(ctx), "", options)
	if err != nil || s.option.Slim == nil {
		return list, err
	}
	return list, meta.EachListItem(list, func(item runtime.Object) error {
		s.option.slim(item)
		return nil
	})
}

func (s *source[T]) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector, options.FieldSelector = s.option.LabelSelector, s.option.FieldSelector
	w, err := s.resource.watch(untraced(ctx), "", options, &follower{traces: s.traces, slim: s.option.slim, pace: s.pace}, grpc.WaitForReady(true))
	if apierrors.IsServiceUnavailable(err) {
		// The reflector lists anew after any error but this one, and a server
		// that restarts must not be asked for everything by everyone.
		return nil, fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
	}
	return w, err
}
