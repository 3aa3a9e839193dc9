package lb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pending"
)

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// Run loads the programs, waits for Synced, writes the maps, attaches, and keeps the maps right until ctx ends. What
// is in the kernel stays when it returns: an agent's restart interrupts no service. An error before Ready means
// that the node cannot balance; afterwards Run retries by itself.
func (b *Balancer) Run(ctx context.Context) error {
	err := b.run(ctx)
	if err != nil {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
	}
	return err
}

func (b *Balancer) run(ctx context.Context) error {
	d, reused, err := loadDatapath(b.cfg.At)
	if err != nil {
		return fmt.Errorf("load balancer: %w", err)
	}
	defer d.close()
	s := newSyncer(b, b.wrap(d.maps()))
	s.datapath = d
	b.cfg.Log.Info("load balancer loaded", "node", b.cfg.Node.Name, "reused", reused)

	resync := time.NewTicker(b.cfg.Resync)
	defer resync.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	retry.Stop()
	wait, full := firstRetry, true
	for {
		if b.isSynced() {
			err := s.sync(ctx, full)
			full = false
			if err == nil && !s.attached {
				// Only now: programs over empty maps would refuse, or let pass, what they do not know yet.
				if err := d.attach(); err != nil {
					return fmt.Errorf("load balancer: %w", err)
				}
				s.attached = true
				close(b.ready)
			}
			if err != nil {
				b.metrics.errors.Inc()
				b.cfg.Log.Error("load balancer update failed; will retry", "node", b.cfg.Node.Name, "err", err, "after", wait)
				retry.Reset(wait)
				wait = min(2*wait, lastRetry)
			} else {
				retry.Stop()
				wait = firstRetry
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		case <-retry.C:
		case <-resync.C:
			full = true
		}
	}
}

func (b *Balancer) isSynced() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.synced
}

// syncer is Run's own state: one goroutine uses it.
type syncer struct {
	*Balancer
	maps     Maps
	datapath *datapath // nil: there are maps alone
	st       *state
	claims   *claims
	attached bool
	// pending are frontends whose write failed; nodesPending likewise.
	pending      map[bpf.LBFrontendKey]bool
	nodesPending bool
	local        []netip.Addr
	problems     map[owner]string
	settling     pending.Waiters
	health       map[types.NamespacedName]HealthPort
	triggers     map[owner][]trigger // of changes that are not written yet
	nobody       map[owner]nobodyHere
}

func newSyncer(b *Balancer, m Maps) *syncer {
	return &syncer{Balancer: b, maps: m, claims: newClaims(), pending: map[bpf.LBFrontendKey]bool{}, problems: map[owner]string{}, health: map[types.NamespacedName]HealthPort{}, triggers: map[owner][]trigger{}, nobody: map[owner]nobodyHere{}}
}

// update is one owner whose table was computed anew.
type update struct {
	owner    owner
	cause    *pending.Cause
	table    Table
	born     time.Time
	problems []string
	health   HealthPort
	nobody   nobodyHere
}

// start begins the span of writing the owner's table.
func (u update) start(ctx context.Context, tracer trace.Tracer, backends int) trace.Span {
	return u.cause.Start(ctx, tracer, "lb.update",
		attribute.String("k8s.kind", u.owner.kind),
		attribute.String("k8s.namespace", u.owner.namespace),
		attribute.String("k8s.name", u.owner.name),
		attribute.Int("endpoints", backends))
}

// sync writes what changed; with full set it first reads the maps again and compares everything.
func (s *syncer) sync(ctx context.Context, full bool) error {
	began := s.cfg.Now()
	if full || s.st == nil {
		full = true
		st, err := readState(s.maps)
		if err != nil {
			s.st = nil
			return err
		}
		s.st = st
		if s.cfg.LocalAddresses != nil {
			if s.local, err = s.cfg.LocalAddresses(); err != nil {
				return fmt.Errorf("list local addresses: %w", err)
			}
		}
	}
	updates, nodes := s.collect(full)
	w, spans := s.want(ctx, updates, full)
	if nodes != nil {
		w.nodes = nodes
		s.nodesPending = true
	}
	p := makePlan(s.st, w)
	err := apply(s.maps, s.st, p)
	s.heedPods(w.changes)
	if err == nil {
		err = s.attachPods(full)
	}
	for _, span := range spans {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End(trace.WithTimestamp(s.cfg.Now()))
	}
	// Every client sees the change by now; what is left is tidying, and waits for programs.
	err = errors.Join(err, collect(s.maps, s.st))
	s.settle(w, updates, err)
	if !p.empty() || full {
		took := s.cfg.Now().Sub(began)
		s.metrics.seconds.Observe(took.Seconds())
		s.metrics.proxy.wrote(took, full)
	}
	s.count()
	return err
}

// collect empties the dirty list. The node addresses come back if they may have changed.
func (s *syncer) collect(full bool) ([]update, map[bpf.LBAddress]uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty := s.dirty
	s.dirty = map[owner]*pending.Cause{}
	s.takeNews()
	s.settling.Take(&s.waiting)
	if full || dirty[allOwners] != nil {
		for _, o := range s.in.owners() {
			if dirty[o] == nil {
				dirty[o] = pending.NewCause(s.cfg.Now())
			}
		}
	}
	var updates []update
	for o, c := range dirty {
		if o == allOwners || o == nodeAddresses {
			continue
		}
		table, born, problems := s.in.table(o)
		updates = append(updates, update{owner: o, cause: c, table: table, born: born, problems: problems, health: s.in.healthPort(o), nobody: s.in.nobodyHere(o)})
		s.fallBehind(c.Since())
	}
	if full || s.nodesPending || dirty[nodeAddresses] != nil || dirty[allOwners] != nil {
		return updates, s.in.addresses(s.local)
	}
	return updates, nil
}

// want turns updates into what the maps are to hold, and starts the spans of those that change something.
func (s *syncer) want(ctx context.Context, updates []update, full bool) (wanted, []trace.Span) {
	touched := map[bpf.LBFrontendKey]bool{}
	for k := range s.pending {
		touched[k] = true
	}
	var spans []trace.Span
	sourcesTouched := full || len(s.pending) > 0
	for _, u := range updates {
		s.report(u)
		changes := false
		backends := map[netip.AddrPort]bool{}
		sourcesTouched = sourcesTouched || hasSources(s.claims.tables[u.owner])
		for _, f := range s.claims.set(u.owner, u.born, u.table) {
			key := encodeFrontend(f)
			touched[key] = true
			entry, ok := s.claims.winner(f)
			changes = changes || s.st.differs(key, entry, ok)
			sourcesTouched = sourcesTouched || len(entry.Sources) > 0
			for _, b := range entry.Backends {
				backends[b.Address] = true
			}
		}
		if changes && u.cause.Traced() {
			spans = append(spans, u.start(ctx, s.cfg.Tracer, len(backends)))
		}
	}
	if full {
		for k := range s.st.frontends {
			touched[k] = true
		}
		for f := range s.claims.by {
			touched[encodeFrontend(f)] = true
		}
	}
	var w wanted
	for key := range touched {
		c := change{frontend: key}
		if entry, ok := s.claims.winner(decodeFrontend(key)); ok {
			c.entry = &entry
		}
		w.changes = append(w.changes, c)
	}
	if sourcesTouched {
		w.sources = s.claims.sources()
	}
	return w, spans
}

// settle remembers what has to be tried again.
func (s *syncer) settle(w wanted, updates []update, err error) {
	if err == nil {
		clear(s.pending)
		s.nodesPending = false
		s.caughtUp()
		s.tellWritten(updates)
		s.tellHealth(updates)
		s.settling.Release()
		return
	}
	s.mu.Lock()
	for _, u := range updates {
		if newer := s.dirty[u.owner]; newer != nil {
			newer.Merge(u.cause)
		} else {
			s.dirty[u.owner] = u.cause
		}
	}
	s.mu.Unlock()
	for _, c := range w.changes {
		s.pending[c.frontend] = true
	}
}

// report logs problems of an object when they come up or change, not at every resync.
func (s *syncer) report(u update) {
	text := fmt.Sprint(u.problems)
	if len(u.problems) == 0 {
		delete(s.problems, u.owner)
		return
	}
	if s.problems[u.owner] != text {
		s.problems[u.owner] = text
		s.cfg.Log.Warn("part of a service is not balanced", "kind", u.owner.kind, "namespace", u.owner.namespace, "name", u.owner.name, "problems", u.problems)
	}
}

func (s *syncer) count() {
	backends := 0
	for _, set := range s.st.sets {
		backends += len(set.slots)
	}
	s.metrics.services.Set(float64(len(s.claims.tables)))
	s.metrics.frontends.Set(float64(len(s.st.frontends)))
	s.metrics.backends.Set(float64(backends))
}
