package ingress

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"howdah.dev/kit/object"
	"howdah.dev/services/ingress/internal/route"
)

const (
	// pause is the shortest time between two tables: changes that come together make one.
	pause = 20 * time.Millisecond
	// again is how long a table stands at most: certificates end without a change of any object.
	again = 10 * time.Minute

	byService = "service"
)

// follow makes the informers, and wakes whoever builds tables when one would be another.
func (s *Server) follow() {
	slim := object.Option{Slim: func(o object.Object) { o.SetManagedFields(nil) }}
	s.ingresses = object.InformerFor(s.informers, object.Ingress) // whose managed fields say who wrote the status
	s.classes = object.InformerFor(s.informers, object.IngressClass, slim)
	s.services = object.InformerFor(s.informers, object.Service, slim)
	s.slices = object.InformerFor(s.informers, object.EndpointSlice, object.Option{Slim: slim.Slim, Indexers: cache.Indexers{byService: func(o any) ([]string, error) {
		return []string{serviceOf(o.(*discoveryv1.EndpointSlice))}, nil
	}}})
	s.secrets = object.InformerFor(s.informers, object.Secret, object.Option{Slim: slim.Slim, FieldSelector: "type=" + string(corev1.SecretTypeTLS)})

	s.ingresses.AddHandler(func(old, i *networkingv1.Ingress) {
		if old == nil || i == nil || !maps.Equal(old.Annotations, i.Annotations) || !equality.Semantic.DeepEqual(old.Spec, i.Spec) {
			s.changed()
		}
	})
	s.classes.AddHandler(func(_, _ *networkingv1.IngressClass) { s.reclass.Store(true); s.changed() })
	s.services.AddHandler(func(old, service *corev1.Service) {
		key := keyOfEither(old, service)
		if key == s.cfg.PublishService {
			s.writer.All()
		}
		if s.interest.has("Service", key) {
			s.changed()
		}
	})
	s.slices.AddHandler(func(old, slice *discoveryv1.EndpointSlice) {
		for _, o := range []*discoveryv1.EndpointSlice{old, slice} {
			if o != nil && s.interest.has("Service", serviceOf(o)) {
				s.changed()
			}
		}
	})
	s.secrets.AddHandler(func(old, secret *corev1.Secret) {
		if s.interest.has("Secret", keyOfEither(old, secret)) {
			s.changed()
		}
	})
}

func serviceOf(slice *discoveryv1.EndpointSlice) string {
	return object.Key(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
}

func keyOfEither[T interface {
	comparable
	object.Object
}](old, new T) string {
	var none T
	if new == none {
		return object.KeyOf(old)
	}
	return object.KeyOf(new)
}

func (s *Server) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// rebuild puts a table into use whenever one would be another than that which is, until ctx ends.
func (s *Server) rebuild(ctx context.Context) error {
	if !s.informers.Wait(ctx) || !s.cfg.Reachable(ctx) {
		return ctx.Err()
	}
	var builder route.Builder
	for first := true; ; first = false {
		start := s.cfg.Clock.Now()
		s.interest.begin()
		reclass := s.reclass.Swap(false)
		classes := route.NewClasses(s.classes.List(""), s.cfg.Controller)
		table := builder.Build(s.ingresses.List(""), classes, s, start)
		s.interest.done()
		s.own.Store(&classes)
		s.proxy.Use(table)
		s.reporter.Set(table.Faults)
		if reclass {
			s.writer.All() // a class may be ours now, or no longer
		}
		slog.DebugContext(ctx, "routing table", "routes", table.Routes, "faults", len(table.Faults), "took", s.cfg.Clock.Since(start).String())
		if first {
			close(s.ready)
		}
		if err := s.sleep(ctx, pause, nil); err != nil {
			return err
		}
		if err := s.sleep(ctx, again, s.wake); err != nil {
			return err
		}
	}
}

// sleep waits for a while, or for wake.
func (s *Server) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wake:
	case <-timer.C():
	}
	return nil
}

// Service implements route.Objects.
func (s *Server) Service(namespace, name string) (*corev1.Service, bool) {
	s.interest.note("Service", object.Key(namespace, name))
	return s.services.Get(namespace, name)
}

// Slices implements route.Objects.
func (s *Server) Slices(namespace, service string) []*discoveryv1.EndpointSlice {
	return s.slices.ByIndex(byService, object.Key(namespace, service))
}

// Secret implements route.Objects.
func (s *Server) Secret(namespace, name string) (*corev1.Secret, bool) {
	s.interest.note("Secret", object.Key(namespace, name))
	return s.secrets.Get(namespace, name)
}

// interest is which objects the table depends on: the others' changes build none anew. What a table that is being built looks at is noted before it is
// read, so that no change in between is missed.
type interest struct {
	mu        sync.Mutex
	now, next map[[2]string]bool
}

func (i *interest) begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next = map[[2]string]bool{}
}

func (i *interest) note(kind, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next[[2]string{kind, key}] = true
}

func (i *interest) done() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now, i.next = i.next, nil
}

func (i *interest) has(kind, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now[[2]string{kind, key}] || i.next[[2]string{kind, key}]
}
