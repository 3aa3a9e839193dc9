// Package custom follows kinds that have definitions: from when a definition is there, until it goes.
package custom

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
)

// A definition that is there may not be served yet, or not in the version that is asked for. It is asked about again after a while that doubles.
const (
	firstAgain = 100 * time.Millisecond
	lastAgain  = 30 * time.Second
)

// Set is what follows several kinds.
type Set struct {
	client      *object.Client
	clock       clock.WithTicker
	informers   *object.Informers // of the definitions
	definitions *object.Informer[*metav1.PartialObjectMetadata]
	run         []task.Func
	settled     []<-chan struct{}
	wakes       map[string]chan struct{} // by the name of the definition
	changed     func()
}

// NewSet returns a set that follows nothing yet, with the kind of definitions. changed is called when a kind comes or goes, or a definition changes.
func NewSet(client *object.Client, definitions object.Kind[*metav1.PartialObjectMetadata], c clock.WithTicker, changed func()) *Set {
	s := &Set{client: client, clock: c, informers: object.NewInformers(client), wakes: map[string]chan struct{}{}, changed: changed}
	s.definitions = object.InformerFor(s.informers, definitions, object.Option{Slim: func(o object.Object) { o.SetManagedFields(nil) }})
	s.definitions.AddHandler(func(old, new *metav1.PartialObjectMetadata) {
		if new == nil {
			new = old
		}
		if wake := s.wakes[new.Name]; wake != nil {
			select {
			case wake <- struct{}{}:
			default:
			}
			s.changed()
		}
	})
	return s
}

// Definition returns the metadata of a definition.
func (s *Set) Definition(name string) (*metav1.PartialObjectMetadata, bool) {
	return s.definitions.GetKey(name)
}

// Run follows the kinds until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	return task.Run(ctx, append([]task.Func{s.informers.Run}, s.run...)...)
}

// Wait returns when of every kind is known whether it is there, and if so what there is of it, or false when ctx ends before.
func (s *Set) Wait(ctx context.Context) bool {
	for _, c := range s.settled {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Kind is one that is followed.
type Kind[T object.Object] struct {
	set     *Set
	kind    object.Kind[T]
	name    string
	change  func(old, new T)
	wake    chan struct{}
	current atomic.Pointer[object.Informer[T]] // nil: there is none
	settle  func()
}

// Follow adds a kind to a set, before it runs. change is called as that of an informer's handler is; what goes with its definition is not told of.
func Follow[T object.Object](s *Set, kind object.Kind[T], change func(old, new T)) *Kind[T] {
	settled := make(chan struct{})
	k := &Kind[T]{
		set: s, kind: kind, name: kind.GroupResource().String(), change: change, wake: make(chan struct{}, 1), settle: sync.OnceFunc(func() { close(settled) }),
	}
	s.wakes[k.name] = k.wake
	s.run, s.settled = append(s.run, k.run), append(s.settled, settled)
	return k
}

// List returns what there is.
func (k *Kind[T]) List() []T {
	if i := k.current.Load(); i != nil {
		return i.List("")
	}
	return nil
}

// GetKey returns the object of a "namespace/name" key.
func (k *Kind[T]) GetKey(key string) (T, bool) {
	if i := k.current.Load(); i != nil {
		return i.GetKey(key)
	}
	var none T
	return none, false
}

// Trace returns the span context of the request that last changed an object.
func (k *Kind[T]) Trace(o T) trace.SpanContext {
	if i := k.current.Load(); i != nil {
		return i.Trace(o)
	}
	return trace.SpanContext{}
}

// Resource returns the kind's, to write.
func (k *Kind[T]) Resource() object.Resource[T] { return object.For(k.set.client, k.kind) }

func (k *Kind[T]) run(ctx context.Context) error {
	if !k.set.informers.Wait(ctx) {
		return ctx.Err()
	}
	wait := firstAgain
	for ctx.Err() == nil {
		d, there := k.set.definitions.GetKey(k.name)
		served, err := false, error(nil)
		if there {
			served, err = k.served(ctx)
		}
		if served {
			wait = firstAgain
			k.follow(ctx, string(d.UID))
			continue
		}
		var again <-chan time.Time
		if there {
			again = k.set.clock.After(wait)
			wait = min(2*wait, lastAgain)
		}
		if err == nil {
			k.settle()
		}
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-again:
		}
	}
	return ctx.Err()
}

// served asks whether the kind can be listed.
func (k *Kind[T]) served(ctx context.Context) (bool, error) {
	_, _, err := k.Resource().List(ctx, "", metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// follow follows the kind as long as it is there: by the definition with the uid.
func (k *Kind[T]) follow(ctx context.Context, uid string) {
	ctx, stop := context.WithCancel(ctx)
	informers := object.NewInformers(k.set.client)
	informer := object.InformerFor(informers, k.kind, object.Option{Slim: func(o object.Object) { o.SetManagedFields(nil) }})
	informer.AddHandler(func(old, new T) {
		if ctx.Err() == nil {
			k.change(old, new)
		}
	})
	var running sync.WaitGroup
	synced := make(chan struct{})
	running.Go(func() { _ = informers.Run(ctx) })
	running.Go(func() {
		if informers.Wait(ctx) {
			close(synced)
		}
	})
	defer func() {
		stop()
		running.Wait()
		k.current.Store(nil)
		k.set.changed()
	}()
	first := synced
	for {
		select {
		case <-ctx.Done():
			return
		case <-first:
			first = nil
			k.current.Store(informer)
			k.settle()
			k.set.changed()
		case <-k.wake:
			d, there := k.set.definitions.GetKey(k.name)
			if !there || string(d.UID) != uid || d.DeletionTimestamp != nil {
				return
			}
			if served, err := k.served(ctx); err == nil && !served {
				return
			}
		}
	}
}
