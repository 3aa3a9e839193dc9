// Package source puts together which pods the node runs: those that the API binds to it, and those of its own manifests, be they
// files or the answers of a URL. Who runs them need not know which is which.
package source

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/pod"
)

// Manifests is a source of pods beside the API. Run tells of all its pods whenever they may have changed, and never before it knows them.
type Manifests interface {
	Name() string
	Run(ctx context.Context, tell func([]*corev1.Pod)) error
}

// API is the cache of the pods that are bound to the node.
type API interface {
	List(namespace string) []*corev1.Pod
	Get(namespace, name string) (*corev1.Pod, bool)
}

// Workers run pods.
type Workers interface {
	Update(p *corev1.Pod)
	Remove(p *corev1.Pod)
	Adopt(uid types.UID, namespace, name string)
}

// Config of a Set.
type Config struct {
	API       API
	Manifests []Manifests // of two that name the same pod, the first counts
	Workers   Workers
	Clock     clock.PassiveClock
	// Changed hears of static pods that come, change and go; it must not call back.
	Changed func(name types.NamespacedName)
	// Restarted, which may be nil, hears of static pods that start once more because their manifest came back while they ended.
	Restarted func()
}

// Set is the node's pods. No lock of the workers may be held by those who call it.
type Set struct {
	cfg Config

	mu     sync.Mutex
	open   bool
	told   map[string][]*corev1.Pod
	places map[types.NamespacedName]*place
	known  chan struct{} // closed once every source has told of its pods

	// The workers ask for traces while they are fed: these have a lock of their own.
	tracing sync.Mutex
	traces  map[types.UID]trace.SpanContext
}

// place is where one static pod is after the other: the next one starts when nothing of the one before is left.
type place struct {
	wanted  *corev1.Pod
	running *corev1.Pod  // with the status that was last told; it is never changed, but replaced
	ends    *metav1.Time // when it was told to end; nil where it is not
	// before is what was last told of the pod's containers, where the same one ended and starts again.
	before *corev1.PodStatus
	// left are pods of an earlier life of the agent that only the runtime knows.
	left []types.UID
}

// New returns a Set; it feeds nobody before Run.
func New(cfg Config) *Set {
	return &Set{
		cfg: cfg, told: map[string][]*corev1.Pod{}, places: map[types.NamespacedName]*place{}, known: make(chan struct{}),
		traces: map[types.UID]trace.SpanContext{},
	}
}

// Serve says who runs the pods; it is called once, before all else.
func (s *Set) Serve(w Workers) { s.cfg.Workers = w }

// Left says that the runtime has a static pod, of the agent's earlier life. It ends when another one is to take its place, or by what the
// sources say once all have.
func (s *Set) Left(name types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place(name).left = append(s.place(name).left, uid)
}

func (s *Set) place(name types.NamespacedName) *place {
	p := s.places[name]
	if p == nil {
		p = &place{}
		s.places[name] = p
	}
	return p
}

// Tell takes in all pods of a source.
func (s *Set) Tell(source string, pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[source] = pods
	wanted := merge(s.cfg.Manifests, s.told)
	for name := range wanted {
		s.place(name)
	}
	for name, p := range s.places {
		p.wanted = wanted[name]
		s.step(name)
	}
	s.complete()
}

// merge says which pods there are to be: of two with the same name, that of the earlier source.
func merge(order []Manifests, told map[string][]*corev1.Pod) map[types.NamespacedName]*corev1.Pod {
	out := map[types.NamespacedName]*corev1.Pod{}
	for _, m := range slices.Backward(order) {
		for _, p := range told[m.Name()] {
			out[Name(p)] = p
		}
	}
	return out
}

// Name is a pod's name with its namespace.
func Name(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// step brings a place closer to what is wanted there.
func (s *Set) step(name types.NamespacedName) {
	p := s.places[name]
	switch {
	case p.running == nil && p.wanted == nil:
		if len(p.left) == 0 {
			delete(s.places, name)
		}
	case p.running == nil:
		p.left = slices.DeleteFunc(p.left, func(uid types.UID) bool { return uid == p.wanted.UID }) // it runs on
		for _, uid := range p.left {
			s.cfg.Workers.Adopt(uid, name.Namespace, name.Name)
		}
		if len(p.left) > 0 {
			return // until they have ended
		}
		s.start(name, p)
	case p.ends == nil && (p.wanted == nil || p.wanted.UID != p.running.UID):
		p.ends = &metav1.Time{Time: s.cfg.Clock.Now()}
		s.note(p.running, "nodeagent.static pod ends")
		s.cfg.Workers.Update(p.given())
		s.cfg.Changed(name)
	}
}

func (s *Set) start(name types.NamespacedName, p *place) {
	p.running = p.wanted
	if p.before != nil {
		p.running = p.wanted.DeepCopy()
		p.running.Status = *p.before
		p.before = nil
	} else if mirror, ok := s.cfg.API.Get(name.Namespace, name.Name); ok { // what runs already is as ready as it was told
		if hash, ok := pod.Mirror(mirror); ok && hash == string(p.wanted.UID) && !pod.Finished(mirror) {
			p.running = p.wanted.DeepCopy()
			p.running.Status = *mirror.Status.DeepCopy()
		}
	}
	s.note(p.running, "nodeagent.static pod")
	s.cfg.Workers.Update(p.running)
	s.cfg.Changed(name)
}

// note makes the span that the traces of a static pod's start and end begin with: no request asks for them.
func (s *Set) note(p *corev1.Pod, what string) {
	_, span := otel.Tracer("nodeagent").Start(context.Background(), what, trace.WithNewRoot(), trace.WithAttributes(append(obs.ObjectAttributes("Pod", p),
		attribute.String("howdah.pod.source", p.Annotations[pod.SourceAnnotation]))...))
	s.tracing.Lock()
	s.traces[p.UID] = span.SpanContext()
	s.tracing.Unlock()
	span.End()
}

// Trace is that of a static pod's start, and once it is to end, of its end.
func (s *Set) Trace(p *corev1.Pod) trace.SpanContext {
	s.tracing.Lock()
	defer s.tracing.Unlock()
	return s.traces[p.UID]
}

// Ended says that nothing of a pod is left on the node.
func (s *Set) Ended(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.places {
		switch {
		case p.running != nil && p.running.UID == uid:
			s.cfg.Workers.Remove(p.running) // it may come again
			s.tracing.Lock()
			delete(s.traces, uid)
			s.tracing.Unlock()
			if p.before = nil; p.wanted != nil && p.wanted.UID == uid {
				p.before = again(&p.running.Status)
				if s.cfg.Restarted != nil {
					s.cfg.Restarted()
				}
			}
			p.running, p.ends = nil, nil
		case slices.Contains(p.left, uid):
			p.left = slices.DeleteFunc(p.left, func(left types.UID) bool { return left == uid })
		default:
			continue
		}
		s.step(name)
		s.cfg.Changed(name)
		return
	}
}

// again is what is known of the containers of a pod that starts once more: how often they did, and how they ended.
func again(was *corev1.PodStatus) *corev1.PodStatus {
	over := func(list []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
		for _, c := range list {
			next := corev1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID, Image: c.Image, ImageID: c.ImageID, RestartCount: c.RestartCount, LastTerminationState: c.LastTerminationState}
			if c.State.Terminated != nil {
				next.LastTerminationState = *c.State.DeepCopy()
			}
			out = append(out, next)
		}
		return out
	}
	return &corev1.PodStatus{ContainerStatuses: over(was.ContainerStatuses), InitContainerStatuses: over(was.InitContainerStatuses)}
}

// given is what the worker gets: a pod that is to end as if it had been deleted from the API.
func (p *place) given() *corev1.Pod {
	if p.ends == nil {
		return p.running
	}
	end := p.running.DeepCopy()
	end.DeletionTimestamp, end.DeletionGracePeriodSeconds = p.ends, end.Spec.TerminationGracePeriodSeconds
	return end
}

// Told keeps what is said of a static pod, and gives it back to its worker: what is said next builds on it, as the API has it for others.
func (s *Set) Told(p *corev1.Pod, status corev1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.places[Name(p)]
	if at == nil || at.running == nil || at.running.UID != p.UID || pod.Equal(&at.running.Status, &status) {
		return
	}
	now := at.running.DeepCopy()
	now.Status = status
	at.running = now
	s.cfg.Workers.Update(at.given())
}

// Bound takes in a change of the API: old is nil for a new pod, now for one that is gone.
func (s *Set) Bound(old, now *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return // Open gives all
	}
	if old != nil && (now == nil || old.UID != now.UID) && !mirror(old) { // in the second case the informer has missed the first one's end
		s.cfg.Workers.Remove(old)
	}
	if now != nil && !mirror(now) {
		s.cfg.Workers.Update(now)
	}
}

func mirror(p *corev1.Pod) bool { _, ok := pod.Mirror(p); return ok }

// Open says that the cache has its full picture: the API's pods have workers when it returns, and get them at once from then on.
func (s *Set) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	for _, p := range s.cfg.API.List("") {
		if !mirror(p) {
			s.cfg.Workers.Update(p)
		}
	}
	s.complete()
}

func (s *Set) complete() {
	if !s.open || len(s.told) < len(s.cfg.Manifests) {
		return
	}
	select {
	case <-s.known:
	default:
		close(s.known)
	}
}

// Known is closed once every source has told of its pods: what else the runtime has is nobody's, and what else mirrors the API has.
func (s *Set) Known() <-chan struct{} { return s.known }

// At returns the static pod of a name, nil where there is none, and whether it is on its way out.
func (s *Set) At(name types.NamespacedName) (p *corev1.Pod, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.places[name]; at != nil {
		return at.running, at.ends != nil
	}
	return nil, false
}

// Names are those of all static pods.
func (s *Set) Names() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []types.NamespacedName
	for name := range s.places {
		out = append(out, name)
	}
	return out
}

// List returns the pods that the node runs, with what is known of their status. Mirrors are not among them: what they stand for is.
func (s *Set) List() []*corev1.Pod {
	out := slices.DeleteFunc(s.cfg.API.List(""), mirror)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p.running != nil {
			out = append(out, p.running)
		}
	}
	return out
}

// Get returns a pod by its name, for the name of a mirror the pod that runs.
func (s *Set) Get(namespace, name string) (*corev1.Pod, bool) {
	if p, _ := s.At(types.NamespacedName{Namespace: namespace, Name: name}); p != nil {
		return p, true
	}
	return s.cfg.API.Get(namespace, name)
}

// Run reads the manifests until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var readers sync.WaitGroup
	for _, m := range s.cfg.Manifests {
		readers.Go(func() { _ = m.Run(ctx, func(pods []*corev1.Pod) { s.Tell(m.Name(), pods) }) }) // it ends with ctx
	}
	<-ctx.Done()
	readers.Wait()
	return ctx.Err()
}
