package netpol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/pending"
)

// Config is what an enforcer needs. Pins and Link are required.
type Config struct {
	// Pins is a folder on a bpffs, e.g. /sys/fs/bpf/howdah-policy. Maps and links are kept there over restarts.
	Pins string
	// Link names the node's end of a sandbox's interface.
	Link func(sandbox string) string
	// LocalAddresses lists this node's addresses, which pods always reach. It is asked again at every resync. Nil: none.
	LocalAddresses func() ([]netip.Addr, error)
	// Problem is told what of a policy cannot be enforced, when that comes up or changes. It must not block. Nil: it is logged.
	Problem func(policy types.NamespacedName, message string)
	// WithoutTCX attaches by filters of tc even where the kernel has tcx.
	WithoutTCX bool
	// Resync is how often everything is compared with the maps; default five minutes.
	Resync time.Duration
	// Now is the clock; default time.Now.
	Now     func() time.Time
	Tracer  trace.Tracer          // default: none
	Metrics prometheus.Registerer // default: none
	Log     *slog.Logger          // default: slog.Default
}

// Enforcer keeps the kernel's maps as the policies say.
type Enforcer struct {
	cfg     Config
	metrics *metrics
	wake    chan struct{}
	ready   chan struct{}
	// wrap lets tests put faults between the enforcer and the maps.
	wrap func(Maps) Maps

	mu        sync.Mutex
	world     *world
	sandboxes map[string]*sandbox
	synced    bool
	ended     error // why Run ended, if it did before it was Ready
	changed   map[string]bool
	causes    map[types.NamespacedName]*pending.Cause
	waiting   pending.Waiters
}

// sandbox is a pod's sandbox on this node.
type sandbox struct {
	pod    *pod
	stands bool          // its rules are in the maps, and the programs at its interface
	done   chan struct{} // closed when it stands
}

// New checks the configuration. It starts nothing and touches no kernel state.
func New(cfg Config) (*Enforcer, error) {
	if cfg.Pins == "" || cfg.Link == nil {
		return nil, errors.New("network policies: Pins and Link are required")
	}
	if cfg.Resync <= 0 {
		cfg.Resync = 5 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider().Tracer("netpol")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Problem == nil {
		cfg.Problem = func(policy types.NamespacedName, message string) {
			cfg.Log.Warn("a network policy cannot be enforced as it is", "namespace", policy.Namespace, "name", policy.Name, "problem", message)
		}
	}
	e := &Enforcer{
		cfg:       cfg,
		wake:      make(chan struct{}, 1),
		ready:     make(chan struct{}),
		wrap:      func(m Maps) Maps { return m },
		world:     newWorld(),
		sandboxes: map[string]*sandbox{},
		changed:   map[string]bool{},
		causes:    map[types.NamespacedName]*pending.Cause{},
	}
	var err error
	if e.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("network policies: %w", err)
	}
	return e, nil
}

// Update takes in a new or changed *NetworkPolicy, *Namespace or *Pod (of any node; what SlimPod leaves of it is enough); others
// are ignored, and so are older states than the known one. It never waits for the maps: changes that come faster than they are written are
// written once. ctx matters only for its trace: what a policy's change does becomes a span "netpol.update" of it.
func (e *Enforcer) Update(ctx context.Context, obj any) { e.take(ctx, obj, false) }

// Delete takes out an object that is gone. Its last known state is enough.
func (e *Enforcer) Delete(ctx context.Context, obj any) { e.take(ctx, obj, true) }

// Synced says that every object that exists has been given to Update once, and every sandbox to Adopt. Nothing is written before it: a restarted
// agent would let pass, or cut, what it just has not heard of yet.
func (e *Enforcer) Synced() {
	e.mu.Lock()
	e.synced = true
	e.mu.Unlock()
	e.poke()
}

// Ready is closed when everything that was known at Synced is enforced.
func (e *Enforcer) Ready() <-chan struct{} { return e.ready }

// Adopt takes in a sandbox that runs already; it does not wait.
func (e *Enforcer) Adopt(p *corev1.Pod, id string) {
	e.mu.Lock()
	e.adopt(p, id)
	e.mu.Unlock()
	e.poke()
}

func (e *Enforcer) adopt(p *corev1.Pod, id string) *sandbox {
	s := e.sandboxes[id]
	if s == nil {
		s = &sandbox{pod: podOf(p), done: make(chan struct{})}
		if known := e.world.pods[s.pod.key()]; known != nil && known.uid == p.UID {
			s.pod = known
		}
		e.sandboxes[id] = s
	}
	return s
}

// Stands says whether the rules for a sandbox's pod are in force.
func (e *Enforcer) Stands(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sandboxes[id]
	return s != nil && s.stands
}

// Isolate waits until the rules for a sandbox's pod are in force: nothing of the pod may run before. A sandbox without an interface of ours
// has none to wait for. Where the kernel cannot enforce policies, it is an error for pods that some policy is about, and for no others.
func (e *Enforcer) Isolate(ctx context.Context, p *corev1.Pod, id string) error {
	e.mu.Lock()
	s := e.adopt(p, id)
	ended := e.ended
	about := false
	for _, d := range directions {
		key, _ := e.world.groupOf(s.pod, d)
		about = about || key != ""
	}
	stands := s.stands
	e.mu.Unlock()
	if stands {
		return nil
	}
	if ended != nil {
		if about {
			return fmt.Errorf("network policies cannot be enforced on this node: %w", ended)
		}
		return nil
	}
	e.poke()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("network policies are not in force yet: %w", ctx.Err())
	}
}

// Settled waits until everything given to Update and Delete before the call is in the maps.
func (e *Enforcer) Settled(ctx context.Context) error {
	e.mu.Lock()
	done := e.waiting.Join()
	e.mu.Unlock()
	e.poke()
	return pending.Wait(ctx, done)
}

func (e *Enforcer) take(ctx context.Context, obj any, gone bool) {
	e.mu.Lock()
	effect := e.world.update(obj, gone)
	work := effect.namespace != "" || len(effect.selections) > 0
	for _, key := range effect.selections {
		e.changed[key] = true
	}
	if o, ok := obj.(*networkingv1.NetworkPolicy); ok && effect.namespace != "" {
		key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		if e.causes[key] == nil {
			e.causes[key] = pending.NewCause(e.cfg.Now())
		}
		e.causes[key].Add(ctx, o.ResourceVersion)
	}
	if o, ok := obj.(*corev1.Pod); ok {
		for _, s := range e.sandboxes {
			if s.pod.uid != o.UID {
				continue
			}
			work = true // if it is gone, its interface is, or will be
			if known := e.world.pods[s.pod.key()]; known != nil && known.uid == s.pod.uid {
				s.pod = known
			}
		}
	}
	e.mu.Unlock()
	if work {
		e.poke()
	}
}

func (e *Enforcer) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
