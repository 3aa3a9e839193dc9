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
	// reopen is how long one stands while ports could not be opened: who has them may let go.
	reopen = 15 * time.Second

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

	s.maps = object.InformerFor(s.informers, object.ConfigMap, object.Option{Slim: func(o object.Object) {
		m := o.(*corev1.ConfigMap)
		m.ManagedFields, m.BinaryData, m.Data = nil, nil, route.Authorities(m.Data)
	}})
	s.namespaces = object.InformerFor(s.informers, object.Namespace, slim)
	s.followGateways()

	s.maps.AddHandler(func(old, m *corev1.ConfigMap) {
		if s.interest.has("ConfigMap", keyOfEither(old, m)) {
			s.changed()
		}
	})
	s.namespaces.AddHandler(func(old, n *corev1.Namespace) {
		if s.interest.has("Namespace", keyOfEither(old, n)) && (old == nil || n == nil || !maps.Equal(old.Labels, n.Labels)) {
			s.changed()
		}
	})
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
			s.changed()
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
	if !s.informers.Wait(ctx) || !s.custom.Wait(ctx) || !s.cfg.Reachable(ctx) {
		return ctx.Err()
	}
	var builder route.Builder
	var closed map[int32]string
	for first := true; ; first = false {
		start := s.cfg.Clock.Now()
		reclass := s.reclass.Swap(false)
		table, classes := s.build(&builder, closed, start)
		if now := s.proxy.Use(table); !maps.Equal(now, closed) { // what could not be opened is not told as if it were
			closed = now
			for port, why := range closed {
				slog.WarnContext(ctx, "a port that a Gateway names cannot be opened", "port", port, "err", why)
			}
			table, classes = s.build(&builder, closed, start)
			s.proxy.Use(table)
		}
		s.own.Store(&classes)
		s.reporter.Set(table.Faults)
		s.gateways.Set(&table.Statuses)
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
		stands := again
		if len(closed) > 0 {
			stands = reopen
		}
		if err := s.sleep(ctx, stands, s.wake); err != nil {
			return err
		}
	}
}

// build makes a table of what there is. closed says which ports could not be opened.
func (s *Server) build(builder *route.Builder, closed map[int32]string, now time.Time) (*route.Table, route.Classes) {
	s.interest.begin()
	defer s.interest.done()
	classes := route.NewClasses(s.classes.List(""), s.cfg.Controller)
	return builder.Build(route.Sources{Ingresses: s.ingresses.List(""), Classes: classes, Gateways: s.gatewaySources(closed)}, s, now), classes
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

// ConfigMap implements route.Objects.
func (s *Server) ConfigMap(namespace, name string) (*corev1.ConfigMap, bool) {
	s.interest.note("ConfigMap", object.Key(namespace, name))
	return s.maps.Get(namespace, name)
}

// Namespace implements route.Objects.
func (s *Server) Namespace(name string) (*corev1.Namespace, bool) {
	s.interest.note("Namespace", name)
	return s.namespaces.Get("", name)
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
