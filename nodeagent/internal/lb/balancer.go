package lb

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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/pending"
)

// Config is what a balancer needs. Node and At are required.
type Config struct {
	Node Node
	At   Attachment
	// LocalAddresses lists this machine's addresses, where NodePorts answer besides the Node's InternalIPs. It is
	// asked again at every resync. Nil: none.
	LocalAddresses func() ([]netip.Addr, error)
	// HealthPorts is told of the services' health ports whenever they, or the numbers of their endpoints, have changed,
	// once the maps hold that. It must not block, nor change the map that it is given. Nil: nobody is told.
	HealthPorts func(map[types.NamespacedName]HealthPort)
	// Resync is how often everything is compared with the maps; default five minutes.
	Resync time.Duration
	// Now is the clock; default time.Now.
	Now     func() time.Time
	Tracer  trace.Tracer          // default: none
	Metrics prometheus.Registerer // default: none
	Log     *slog.Logger          // default: slog.Default
}

// Balancer keeps the kernel's maps as the objects say.
type Balancer struct {
	cfg     Config
	began   time.Time // when it was made: what happened before was another's to write
	metrics *metrics
	wake    chan struct{}
	ready   chan struct{}
	// wrap lets tests put faults between the balancer and the maps.
	wrap func(Maps) Maps

	mu     sync.Mutex
	in     *inputs
	synced bool
	dirty  map[owner]*pending.Cause
	news   news
	// links are pods' interfaces, by name; byPacket says that some service is to be balanced at them all.
	links    map[string]*podLink
	byPacket bool
	// ended says that Run gave up: the node cannot balance.
	ended bool
	// waiting are closed after the next round that wrote everything.
	waiting pending.Waiters
	// behind is since when a change waits that was taken up and is not written yet; zero if there is none.
	behind time.Time
	// written is when everything was last written.
	written time.Time
}

// New checks the configuration. It starts nothing and touches no kernel state.
func New(cfg Config) (*Balancer, error) {
	var errs []error
	if cfg.Node.Name == "" {
		errs = append(errs, errors.New("Node.Name is empty"))
	}
	if cfg.At.Cgroup == "" {
		errs = append(errs, errors.New("At.Cgroup is empty"))
	}
	if cfg.At.Pins == "" {
		errs = append(errs, errors.New("At.Pins is empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("load balancer: %w", err)
	}
	if cfg.Resync <= 0 {
		cfg.Resync = 5 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider().Tracer("lb")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	m, err := newMetrics(cfg.Metrics, cfg.families())
	if err != nil {
		return nil, fmt.Errorf("load balancer: %w", err)
	}
	return &Balancer{
		cfg:     cfg,
		began:   cfg.Now(),
		news:    newNews(),
		metrics: m,
		wake:    make(chan struct{}, 1),
		ready:   make(chan struct{}),
		wrap:    func(m Maps) Maps { return m },
		in:      newInputs(cfg.Node),
		dirty:   map[owner]*pending.Cause{},
		links:   map[string]*podLink{},
	}, nil
}

// Update takes in a new or changed *Service, *EndpointSlice, *Node, or *Pod of this node (for its hostPorts, once it
// has an address); others are ignored. The object must not be changed afterwards. It never blocks: changes of one
// service that come faster than the maps are written are written once. ctx matters only for its trace: the map
// update becomes a span "lb.update" of it.
func (b *Balancer) Update(ctx context.Context, obj any) { b.take(ctx, obj, false) }

// Delete takes out an object that is gone. Its last known state is enough.
func (b *Balancer) Delete(ctx context.Context, obj any) { b.take(ctx, obj, true) }

// Synced says that every object that exists has been given to Update once. Nothing is written before it: a
// restarted agent would take services away that it just has not heard of yet.
func (b *Balancer) Synced() {
	b.mu.Lock()
	b.synced = true
	b.mu.Unlock()
	b.poke()
}

// Ready is closed when the maps hold everything that was known at Synced and the programs are attached.
func (b *Balancer) Ready() <-chan struct{} { return b.ready }

func (b *Balancer) take(ctx context.Context, obj any, gone bool) {
	revision := ""
	if m, err := meta.Accessor(obj); err == nil {
		revision = m.GetResourceVersion()
	}
	now := b.cfg.Now()
	b.mu.Lock()
	b.hear(obj, gone)
	owners := b.in.update(obj, gone)
	for _, o := range owners {
		c := b.dirty[o]
		if c == nil {
			c = pending.NewCause(now)
			b.dirty[o] = c
		}
		c.Add(ctx, revision)
	}
	b.mu.Unlock()
	if len(owners) > 0 {
		b.metrics.proxy.queue(now)
		b.poke()
	}
}

func (b *Balancer) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
