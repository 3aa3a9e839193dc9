// Package feed shares watches: of those who watch the same objects in the same encoding, all but the first follow one feed, so that an
// event comes once from an API server, and is framed once, however many they are.
//
// Each of them has a watch of its own at an API server all the same: that is where its request is authenticated, authorized, audited,
// bounded and begun, at whatever revision it asks for. Once that watch has told everything up to where the feed has come, it falls
// silent (WatchRequest.join_after), and the feed tells the rest.
package feed

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Client is what the package needs of the object service.
type Client interface {
	Watch(ctx context.Context, req *apiv1.WatchRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.WatchResponse], error)
}

// Frame appends the frame of an event whose object is encoded.
type Frame = func(to []byte, eventType string, object []byte) []byte

// Config is what a Set is made of. Zero values of the bounds stand for their defaults.
type Config struct {
	Client Client
	// Framer returns how events are framed whose objects have the content type.
	Framer func(contentType string) Frame
	// Most is how many feeds may stand at a time; none where it is 0. Who finds no place watches alone.
	Most int
	// Linger is how long a feed stands that nobody follows; 30 s.
	Linger time.Duration
	// Patience is how long a feed that has lost its API server tries to go on before it ends; 30 s.
	Patience time.Duration
	// MaxEvents and MaxBytes bound what a follower may leave unread before it is cut off; 16,384 and 32 MiB.
	MaxEvents, MaxBytes int
	// Registerer takes the metrics; may be nil.
	Registerer prometheus.Registerer
}

const (
	// startWait is how long who wants to follow waits for the feed's start.
	startWait = 5 * time.Second
	// refusedFor is how long nobody tries again a feed that could not start.
	refusedFor = 30 * time.Second
	// maxRefused bounds what is remembered of those.
	maxRefused = 1000
	// Those who are slow are looked for after so many events or bytes.
	lookEvery, lookBytes = 1024, 1 << 20
)

// Set is all feeds of a gateway.
type Set struct {
	client              Client
	framer              func(contentType string) Frame
	most                int
	linger, patience    time.Duration
	maxEvents, maxBytes int
	metrics             *metrics
	life                context.Context // of feeds; a request may come before Run has begun, so it begins with the set
	end                 context.CancelFunc

	mu       sync.Mutex
	watching map[key]int // who watches, alone or not
	feeds    map[key]*feed
	refused  map[key]time.Time
	running  sync.WaitGroup
}

// New returns a set without feeds. Whoever lets watches enter it must Run it.
func New(c Config) *Set {
	s := &Set{
		client: c.Client, framer: c.Framer, most: c.Most, linger: c.Linger, patience: c.Patience, maxEvents: c.MaxEvents, maxBytes: c.MaxBytes,
		watching: map[key]int{}, feeds: map[key]*feed{}, refused: map[key]time.Time{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.linger == 0 {
		s.linger = 30 * time.Second
	}
	if s.patience == 0 {
		s.patience = 30 * time.Second
	}
	if s.maxEvents == 0 {
		s.maxEvents = 16384
	}
	if s.maxBytes == 0 {
		s.maxBytes = 32 << 20
	}
	s.metrics = newMetrics(c.Registerer)
	return s
}

// Run lets feeds stand until ctx ends: then all end, and none begins any more.
func (s *Set) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock() // who begins a feed holds it: all that have begun are waited for
	s.end()
	s.mu.Unlock()
	s.running.Wait()
}

// Enter counts one who is about to watch; the function that it returns, which must be called, counts it out. The follower is nil for
// who should watch alone: the first of its kind, and all where no feed can be had.
func (s *Set) Enter(ctx context.Context, req *apiv1.WatchRequest) (*Follower, func()) {
	if s.most == 0 {
		return nil, func() {}
	}
	k := keyOf(req)
	f := s.enter(k)
	leave := func() { s.leave(k, f) }
	if f == nil {
		return nil, leave
	}
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-f.started:
	case <-f.over:
		return nil, leave
	case <-timer.C:
		return nil, leave
	case <-ctx.Done():
		return nil, leave
	}
	w := f.followFrom(req.GetAllowWatchBookmarks())
	if w == nil {
		return nil, leave
	}
	return w, func() { w.stop(); leave() }
}

// enter returns the feed to wait for, which has one user more, or nil.
func (s *Set) enter(k key) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching[k]++
	f := s.feeds[k]
	switch {
	case s.life.Err() != nil:
		return nil
	case f != nil:
	case s.watching[k] == 1 || len(s.feeds) >= s.most:
		return nil
	default:
		if until, ok := s.refused[k]; ok && time.Now().Before(until) {
			return nil
		}
		delete(s.refused, k)
		f = s.begin(k)
	}
	f.users++
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	return f
}

// begin starts a feed; the caller holds the lock.
func (s *Set) begin(k key) *feed {
	f := &feed{set: s, key: k, started: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{}, 1), followed: map[*Follower]struct{}{}}
	ctx, cancel := context.WithCancel(s.life)
	f.end = cancel
	s.feeds[k] = f
	s.metrics.feeds.Inc()
	s.running.Go(func() { defer cancel(); f.run(ctx) })
	s.running.Go(func() { f.wake(ctx) })
	return f
}

// leave counts one out. A feed that nobody follows stands for a while longer: who comes back finds it.
func (s *Set) leave(k key, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching[k]--; s.watching[k] == 0 {
		delete(s.watching, k)
	}
	if f == nil {
		return
	}
	if f.users--; f.users == 0 && s.feeds[k] == f {
		f.idle = time.AfterFunc(s.linger, func() { s.endIdle(f) })
	}
}

func (s *Set) endIdle(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users == 0 && s.feeds[f.key] == f {
		delete(s.feeds, f.key)
		s.metrics.feeds.Dec()
		f.end()
	}
}

// forget takes a feed out that is over by itself.
func (s *Set) forget(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feeds[f.key] != f {
		return
	}
	delete(s.feeds, f.key)
	s.metrics.feeds.Dec()
	if f.hasStarted() {
		return
	}
	now := time.Now()
	if len(s.refused) >= maxRefused {
		maps.DeleteFunc(s.refused, func(_ key, until time.Time) bool { return now.After(until) })
	}
	if len(s.refused) < maxRefused {
		s.refused[f.key] = now.Add(refusedFor)
	}
}

// key is what watchers have in common who can share.
type key struct {
	group, version, resource, namespace, name, labels, fields, accept, include string
	uninitialized                                                              bool
}

func keyOf(r *apiv1.WatchRequest) key {
	return key{r.GetGroup(), r.GetVersion(), r.GetResource(), r.GetNamespace(), r.GetName(), r.GetLabelSelector(), r.GetFieldSelector(), r.GetAccept(), r.GetIncludeObject(), r.GetIncludeUninitialized()}
}

func (k key) request() *apiv1.WatchRequest {
	return &apiv1.WatchRequest{
		Group: k.group, Version: k.version, Resource: k.resource, Namespace: k.namespace, Name: k.name,
		LabelSelector: k.labels, FieldSelector: k.fields, Accept: k.accept, IncludeObject: k.include, IncludeUninitialized: k.uninitialized,
	}
}

// speakingForItself returns a context for calls in the gateway's own name. It may watch everything: whoever is told of it has had its
// own watch of the same authorized.
func speakingForItself(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(obs.Untraced(ctx), "howdah-user", "howdah:gateway", "howdah-group", "howdah:gateways", "howdah-group", "system:masters")
}
