package initializers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

type attendedKey struct{}

// Attend returns a context in which attend hears of an object that is about to be created and waits for initializers.
func Attend(ctx context.Context, attend func(*registry.Resource, registry.Object)) context.Context {
	return context.WithValue(ctx, attendedKey{}, attend)
}

// Announce tells the context's listener, if it has one, of an object that is about to be created.
func Announce(ctx context.Context, res *registry.Resource, obj registry.Object) {
	if attend, ok := ctx.Value(attendedKey{}).(func(*registry.Resource, registry.Object)); ok {
		attend(res, obj)
	}
}

// creation follows an object that is being created until its initializers have done their part.
type creation struct {
	cache   *cache.Cache
	res     *registry.Resource
	name    string
	uid     types.UID
	watcher *cache.Watcher // nil where nothing is waited for
}

// begin watches the object, before there is any event of it. A create that is planned again, under another name, begins again.
func (c *creation) begin(res *registry.Resource, obj registry.Object) {
	c.stop()
	c.res, c.name, c.uid = res, obj.GetName(), obj.GetUID()
	scope := cache.Scope{Namespace: obj.GetNamespace(), Name: c.name}
	c.watcher, _ = c.cache.For(res.Kind).WatchList(scope, cache.Query{Namespace: scope.Namespace, Name: c.name, Limit: 1})
}

func (c *creation) stop() {
	if c.watcher != nil {
		c.watcher.Stop()
		c.watcher = nil
	}
}

// wait returns the object when nothing keeps it back any more. It fails with the result of an initializer that has failed, and with 504 where the
// context's time is up.
func (c *creation) wait(ctx context.Context) (*codec.Item, error) {
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout %s", time.Since(began).Round(time.Second)), 0)
		case <-c.watcher.Signal():
		}
		events, ended := c.watcher.Take()
		for _, e := range events {
			item, over, err := c.look(e)
			if over || err != nil {
				return item, err
			}
		}
		if ended != nil {
			return nil, apierrors.NewTimeoutError(fmt.Sprintf("server has timed out waiting for the initialization of %s %s", c.res.GroupResource(), c.name), 0)
		}
	}
}

var errDeleted = errors.New("object deleted while waiting for creation")

// look says what an event means for who waits; over: the object is there.
func (c *creation) look(e *cache.Event) (item *codec.Item, over bool, err error) {
	obj, err := e.Item.Object()
	if err != nil {
		return nil, false, err
	}
	if obj.GetUID() != c.uid { // of one that had the name before
		return nil, false, nil
	}
	state, err := Of(obj)
	switch {
	case err != nil:
		return nil, false, err
	case state != nil && state.Result != nil:
		return nil, false, apierrors.FromObject(state.Result)
	case e.Type == cache.Deleted:
		return nil, false, apierrors.NewInternalError(errDeleted)
	}
	return e.Item, state == nil, nil
}
