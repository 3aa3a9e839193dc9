package resourcequota

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

// rediscover is how often it is looked which kinds are served, and in which version.
const rediscover = 30 * time.Second

// follower watches the metadata of the resources that some quota limits, and of no other: it tells when an object has gone.
type follower struct {
	client *object.Client
	clock  clock.WithTicker
	gone   func(gr schema.GroupResource, namespace string)
	wake   chan struct{}

	mu     sync.Mutex
	wanted map[string][]schema.GroupResource // by quota's key
	served map[schema.GroupResource]discovery.Resource
}

// informing is an informer of a resource in one of its versions.
type informing struct {
	of   schema.GroupVersionKind
	stop context.CancelFunc
}

func newFollower(client *object.Client, clock clock.WithTicker, gone func(schema.GroupResource, string)) *follower {
	return &follower{client: client, clock: clock, gone: gone, wake: make(chan struct{}, 1), wanted: map[string][]schema.GroupResource{}}
}

// want notes what a quota limits; nil: it is gone.
func (f *follower) want(key string, q *corev1.ResourceQuota) {
	var all []schema.GroupResource
	if q != nil {
		all = NeedsOf(q).All()
	}
	f.mu.Lock()
	same := slices.Equal(f.wanted[key], all)
	if len(all) == 0 {
		delete(f.wanted, key)
	} else {
		f.wanted[key] = all
	}
	f.mu.Unlock()
	if !same {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// all returns the resources that quotas limit, pods excepted: everybody follows those.
func (f *follower) all() map[schema.GroupResource]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[schema.GroupResource]bool{}
	for _, list := range f.wanted {
		for _, gr := range list {
			if gr != pods {
				out[gr] = true
			}
		}
	}
	return out
}

// run keeps an informer for each of those resources until ctx ends.
func (f *follower) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	running := map[schema.GroupResource]informing{}
	ticker := f.clock.NewTicker(rediscover)
	defer ticker.Stop()
	for {
		wanted := f.all()
		for gr, is := range running {
			if !wanted[gr] {
				is.stop()
				delete(running, gr)
			}
		}
		for gr := range wanted {
			res, ok := f.resource(ctx, gr)
			was, known := running[gr]
			if !ok || known && was.of == res.GVK {
				continue
			}
			if known {
				was.stop()
			}
			informers := f.informer(gr, res)
			ctx, stop := context.WithCancel(ctx)
			running[gr] = informing{res.GVK, stop}
			wg.Go(func() { _ = informers.Run(ctx) })
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		case <-ticker.C():
			f.forget()
		}
	}
}

func (f *follower) informer(gr schema.GroupResource, res discovery.Resource) *object.Informers {
	informers := object.NewInformers(f.client)
	inf := object.InformerFor(informers, res.Metadata(), object.Option{Slim: slim})
	inf.AddHandler(func(old, new *metav1.PartialObjectMetadata) {
		if new == nil {
			f.gone(gr, old.Namespace)
		}
	})
	return informers
}

// slim drops all but the name.
func slim(m object.Object) {
	m.SetManagedFields(nil)
	m.SetLabels(nil)
	m.SetAnnotations(nil)
	m.SetOwnerReferences(nil)
}

// find returns the metadata of a resource that is served.
func (f *follower) find(ctx context.Context, gr schema.GroupResource) (object.Kind[*metav1.PartialObjectMetadata], bool) {
	res, ok := f.resource(ctx, gr)
	return res.Metadata(), ok
}

// resource looks a resource up, and asks the API for those that are new where it is not known.
func (f *follower) resource(ctx context.Context, gr schema.GroupResource) (discovery.Resource, bool) {
	f.mu.Lock()
	res, ok := f.served[gr]
	f.mu.Unlock()
	if ok {
		return res, true
	}
	found, err := discovery.Resources(ctx, f.client)
	if err != nil {
		slog.WarnContext(ctx, "some kinds are not discovered: quotas do not see what of them goes", "err", err)
	}
	served := map[schema.GroupResource]discovery.Resource{}
	for _, r := range found {
		if r.Namespaced && r.Can("list", "watch") {
			served[r.GroupResource()] = r
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = served
	res, ok = served[gr]
	return res, ok
}

// forget has the API asked again which resources there are.
func (f *follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served = nil
}
