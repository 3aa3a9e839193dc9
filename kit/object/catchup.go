package object

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// catchUpEvery is how often a cache is asked how far it is: it tells nobody.
	catchUpEvery = 5 * time.Millisecond
	// catchUpRetry is how long after an error of the API it is asked again.
	catchUpRetry = 250 * time.Millisecond
)

// TakeOver ends Rest and waits until every informer of the set has caught up: a new leader that plans without what the one before has
// written, which can write no more once the fence is set, makes things again. Where the API gives errors it is asked again until ctx ends.
func (s *Informers) TakeOver(ctx context.Context, clock clock.Clock) error {
	s.Wake()
	for {
		err := s.CatchUp(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("catch up: %w", err)
		case <-clock.After(catchUpRetry):
		}
	}
}

// CatchUp waits until every informer of the set has caught up, see Informer.CatchUp.
func (s *Informers) CatchUp(ctx context.Context) error {
	s.mu.Lock()
	parts := s.catchUp
	s.mu.Unlock()
	problems := make([]error, len(parts))
	var wg sync.WaitGroup
	for n, part := range parts {
		wg.Go(func() { problems[n] = part(ctx) })
	}
	wg.Wait()
	return errors.Join(problems...)
}

// CatchUp waits until the cache shows what was written of the kind before the call: what was there then is cached as it was or newer, or
// has gone since, and what was cached and had gone is cached no more.
func (i *Informer[T]) CatchUp(ctx context.Context) error {
	now, err := i.written(ctx)
	if err != nil {
		return err
	}
	if err := until(ctx, func() bool { return i.Shows(uint64(now.newest)) }); err != nil {
		return fmt.Errorf("wait for revision %d of %s: %w", now.newest, i.kind.Resource, err)
	}
	for _, gone := range i.missing(now) {
		if err := until(ctx, func() bool { return !i.caches(gone) }); err != nil {
			return fmt.Errorf("wait for the end of %s %s: %w", i.kind.Resource, KeyOf(gone), err)
		}
	}
	return nil
}

// written is what the API had of a kind at one time.
type written struct {
	revision int64 // of the list
	newest   int64 // of its objects
	uids     map[types.UID]bool
}

func (i *Informer[T]) written(ctx context.Context) (written, error) {
	kind := Metadata(i.kind.GVK, i.kind.Resource, i.kind.Namespaced)
	kind.Remote = i.kind.Remote
	selected := metav1.ListOptions{LabelSelector: i.option.LabelSelector, FieldSelector: i.option.FieldSelector}
	list, of, err := For(i.client, kind).List(ctx, "", selected)
	if err != nil {
		return written{}, fmt.Errorf("look for the newest of %s: %w", i.kind.Resource, err)
	}
	now := written{uids: make(map[types.UID]bool, len(list))}
	if now.revision, err = strconv.ParseInt(of.ResourceVersion, 10, 64); err != nil {
		return written{}, fmt.Errorf("revision of the list of %s: %w", i.kind.Resource, err)
	}
	for _, o := range list {
		revision, err := revisionOf(o)
		if err != nil {
			return written{}, err
		}
		now.newest = max(now.newest, revision)
		now.uids[o.UID] = true
	}
	return now, nil
}

// Shows says whether the cache holds the state of the revision, or a later one. The reflector's own revision says less: it runs ahead of
// the cache by what is in the queue between them.
func (i *Informer[T]) Shows(revision uint64) bool {
	cached, err := strconv.ParseUint(i.shared.GetStore().LastStoreSyncResourceVersion(), 10, 64)
	return err == nil && cached >= revision
}

// missing returns what is cached though it had gone.
func (i *Informer[T]) missing(now written) (gone []T) {
	for _, o := range i.List("") {
		if revision, err := revisionOf(o); err == nil && revision <= now.revision && !now.uids[o.GetUID()] {
			gone = append(gone, o)
		}
	}
	return gone
}

func (i *Informer[T]) caches(obj T) bool {
	cached, ok := i.Get(obj.GetNamespace(), obj.GetName())
	return ok && cached.GetUID() == obj.GetUID()
}

func revisionOf(obj metav1.Object) (int64, error) {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision of %s: %w", KeyOf(obj), err)
	}
	return revision, nil
}

// until asks again and again, until the answer is yes.
func until(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(catchUpEvery)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
