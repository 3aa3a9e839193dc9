// Package template follows the objects of the federation that may be carried: of any kinds, which come and go.
package template

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/federation/api"
)

const (
	// again is how often kinds that are not followed yet are looked for.
	again = 3 * time.Second
	// timeout bounds the question for what is served.
	timeout = 10 * time.Second
)

// Set is what follows kinds. It is safe for concurrent use.
type Set struct {
	client  *object.Client
	clock   clock.WithTicker
	changed func(id api.ID, by trace.SpanContext)
	synced  func(gvk schema.GroupVersionKind)
	wake    chan struct{}

	mu     sync.Mutex
	wanted map[schema.GroupVersionKind]bool
	kinds  map[schema.GroupVersionKind]*kind
}

type kind struct {
	object.Kind[*api.Any]
	absent   bool // the API has no such kind
	informer *object.Informer[*api.Any]
	stop     context.CancelFunc
}

// New returns a set that follows nothing. changed is called for every object that changes, and synced when all of a kind are known, or that there is no such kind.
func New(client *object.Client, c clock.WithTicker, changed func(id api.ID, by trace.SpanContext), synced func(gvk schema.GroupVersionKind)) *Set {
	return &Set{client: client, clock: c, changed: changed, synced: synced, wake: make(chan struct{}, 1), wanted: map[schema.GroupVersionKind]bool{}, kinds: map[schema.GroupVersionKind]*kind{}}
}

// Want says which kinds are to be followed from now on.
func (s *Set) Want(kinds map[schema.GroupVersionKind]bool) {
	s.mu.Lock()
	same := len(kinds) == len(s.wanted)
	for gvk := range kinds {
		same = same && s.wanted[gvk]
	}
	s.wanted = kinds
	s.mu.Unlock()
	if same {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Get returns an object, nil where there is none. known is false while that is not known.
func (s *Set) Get(id api.ID) (o *api.Any, known bool) {
	s.mu.Lock()
	k := s.kinds[id.GVK]
	s.mu.Unlock()
	switch {
	case k == nil:
		return nil, false
	case k.absent:
		return nil, true
	case !k.informer.HasSynced():
		return nil, false
	}
	o, _ = k.informer.Get(id.Namespace, id.Name)
	return o, true
}

// List returns all of a kind that are known.
func (s *Set) List(gvk schema.GroupVersionKind, namespace string) []*api.Any {
	s.mu.Lock()
	k := s.kinds[gvk]
	s.mu.Unlock()
	if k == nil || k.absent {
		return nil
	}
	return k.informer.List(namespace)
}

// Trace returns the span context of the request that last changed an object.
func (s *Set) Trace(o *api.Any) trace.SpanContext {
	s.mu.Lock()
	k := s.kinds[o.GroupVersionKind()]
	s.mu.Unlock()
	if k == nil || k.absent {
		return trace.SpanContext{}
	}
	return k.informer.Trace(o)
}

// Resource is the resource of a kind, to write; false where it is not followed.
func (s *Set) Resource(gvk schema.GroupVersionKind) (object.Resource[*api.Any], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[gvk]
	if k == nil || k.absent {
		return object.Resource[*api.Any]{}, false
	}
	return object.For(s.client, k.Kind), true
}

// Run follows until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		missing := s.adjust(ctx, &running)
		var later <-chan time.Time
		if missing {
			later = s.clock.After(again)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-later:
		}
	}
}

// adjust begins to follow what is wanted and there, and ends what is not wanted any more. It reports whether something is missing.
func (s *Set) adjust(ctx context.Context, running *sync.WaitGroup) bool {
	s.mu.Lock()
	var find []schema.GroupVersionKind
	for gvk := range s.wanted {
		if k := s.kinds[gvk]; k == nil || k.absent {
			find = append(find, gvk)
		}
	}
	for gvk, k := range s.kinds {
		if !s.wanted[gvk] {
			if k.stop != nil {
				k.stop()
			}
			delete(s.kinds, gvk)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(find, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	missing := false
	for _, gvk := range find {
		k, err := s.find(ctx, gvk)
		if err != nil {
			slog.WarnContext(ctx, "a kind cannot be looked for", "kind", gvk.String(), "err", err)
			missing = true
			continue
		}
		missing = missing || k.absent
		if !k.absent {
			s.follow(ctx, gvk, k, running)
			continue
		}
		s.mu.Lock()
		first := s.kinds[gvk] == nil
		s.kinds[gvk] = k
		s.mu.Unlock()
		if first {
			s.synced(gvk)
		}
	}
	return missing
}

func (s *Set) follow(ctx context.Context, gvk schema.GroupVersionKind, k *kind, running *sync.WaitGroup) {
	informers := object.NewInformers(s.client)
	informer := object.InformerFor(informers, k.Kind, object.Option{Slim: func(o object.Object) { o.SetManagedFields(nil) }})
	informer.AddHandler(func(old, o *api.Any) {
		if o == nil {
			o = old
		}
		s.changed(api.ID{GVK: gvk, Namespace: o.GetNamespace(), Name: o.GetName()}, informer.Trace(o))
	})
	run, stop := context.WithCancel(ctx)
	s.mu.Lock()
	k.informer, k.stop = informer, stop
	s.kinds[gvk] = k
	s.mu.Unlock()
	running.Go(func() { _ = informers.Run(run) })
	running.Go(func() {
		if informers.Wait(run) {
			s.synced(gvk)
		}
	})
}

// find asks the API for the resource of a kind.
func (s *Set) find(ctx context.Context, gvk schema.GroupVersionKind) (*kind, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	response, err := s.client.Discovery().Document(ctx, &apiv1.DocumentRequest{Path: path, Accept: "application/json"})
	if err = apistatus.FromGRPC(err); apierrors.IsNotFound(err) {
		return &kind{absent: true}, nil
	}
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(response.GetObject(), &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && r.Group == "" && !strings.Contains(r.Name, "/") && !response.GetRemote() {
			return &kind{Kind: api.KindOf(gvk, r.Name, r.Namespaced)}, nil
		}
	}
	return &kind{absent: true}, nil
}
