package definitions

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/kind/definition"
)

// finish deletes the objects of a definition in deletion, waits for those that something holds, and lets the definition go. It
// returns when that is done, or when there is nothing to do any more.
func (k *Keeper) finish(ctx context.Context, d *known) {
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		over, err := k.tryFinish(ctx, d.item.Key)
		if over || ctx.Err() != nil {
			return
		}
		if err != nil {
			slog.WarnContext(ctx, "delete the objects of a custom resource definition", "name", d.name, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.Clock.After(wait):
		}
	}
}

func (k *Keeper) now(key string) *known {
	k.Follower.mu.Lock()
	defer k.Follower.mu.Unlock()
	d := k.Follower.known[key]
	if d == nil || !d.deleting || !d.held {
		return nil
	}
	return d
}

// tryFinish takes the deletion as far as it goes, and reports whether it is over.
func (k *Keeper) tryFinish(ctx context.Context, key string) (over bool, err error) {
	d := k.now(key)
	if d == nil {
		return true, nil
	}
	if k.Follower.builtIn(d.kind.Home) {
		return false, k.release(ctx, d, condition{
			Status: apiextensionsv1.ConditionFalse, Reason: "OverlappingBuiltInResource", Message: "instances overlap with built-in resources in storage",
		})
	}
	if !d.shape.established {
		return false, k.release(ctx, d, condition{
			Status: apiextensionsv1.ConditionFalse, Reason: "NeverEstablished", Message: "resource was never established",
		})
	}
	if c := d.condition(apiextensionsv1.Terminating); c == nil || c.Reason == "InstanceDeletionPending" {
		if err := k.tell(ctx, d, condition{
			Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		}); err != nil {
			return false, err
		}
		if err := k.Cache.Fresh(ctx); err != nil {
			return false, err
		}
		if d = k.now(key); d == nil {
			return true, nil
		}
	}
	resource := k.Cache.For(d.kind.Home)
	watcher, _ := resource.WatchList(cache.Scope{}, cache.Query{Limit: 1})
	defer watcher.Stop()
	if err := k.API.Purge(ctx, d.kind.Home); err != nil {
		_ = k.tell(ctx, d, condition{ // the failure itself is told below
			Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionFailed", Message: fmt.Sprintf("could not issue all deletes: %v", err),
		})
		return false, err
	}
	again := k.Clock.After(recheck)
	for {
		if err := k.Cache.Fresh(ctx); err != nil {
			return false, err
		}
		if resource.Len() == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return true, nil
		case <-again:
			return false, nil
		case <-watcher.Signal():
			if _, ended := watcher.Take(); ended != nil {
				return false, nil
			}
		}
	}
	if d = k.now(key); d == nil {
		return true, nil
	}
	return false, k.release(ctx, d, condition{
		Status: apiextensionsv1.ConditionFalse, Reason: "InstanceDeletionCompleted", Message: "removed all instances",
	})
}

func (k *Keeper) tell(ctx context.Context, d *known, c condition) error {
	c.Type = apiextensionsv1.Terminating
	return k.write(ctx, d, func(d *crd, now time.Time) { definition.SetCondition(d, c, now) })
}

// release takes the finalizer away: the definition goes, unless others hold it.
func (k *Keeper) release(ctx context.Context, d *known, c condition) error {
	c.Type = apiextensionsv1.Terminating
	err := k.write(ctx, d, func(d *crd, now time.Time) {
		definition.SetCondition(d, c, now)
		d.Finalizers = slices.DeleteFunc(d.Finalizers, func(f string) bool { return f == definition.Finalizer })
	})
	if err == nil {
		err = k.Cache.Fresh(ctx)
	}
	return err
}
