package netpol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/pending"
	"howdah.dev/nodeagent/internal/pinned"
)

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
	lastBreath = 500 * time.Millisecond
)

// Run loads the programs, waits for Synced, writes the maps, attaches, and keeps everything right until ctx ends. What is in the
// kernel stays when it returns: an agent's restart neither cuts nor lets pass. An error before Ready means that the node cannot
// enforce policies; afterwards Run retries by itself.
func (e *Enforcer) Run(ctx context.Context) error {
	d, reused, err := loadDatapath(e.cfg)
	if err != nil {
		err = fmt.Errorf("network policies: %w", err)
		e.mu.Lock()
		e.ended = err
		e.mu.Unlock()
		return err
	}
	defer d.close()
	e.metrics.programs.Store(d)
	defer e.metrics.programs.Store(nil)
	s := &syncer{Enforcer: e, datapath: d, maps: e.wrap(d.maps()), groups: map[string]*group{}, attached: map[string]int{}, problems: map[types.NamespacedName]string{}}
	e.cfg.Log.Info("network policies loaded", "reused", reused)

	resync := time.NewTicker(e.cfg.Resync)
	defer resync.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	retry.Stop()
	wait, full, ready := firstRetry, true, false
	for {
		if e.isSynced() {
			began := e.cfg.Now()
			err := s.sync(ctx, full)
			full = false
			breath := min(e.cfg.Now().Sub(began), lastBreath)
			if err != nil {
				e.metrics.errors.Inc()
				e.cfg.Log.Error("network policies' update failed; will retry", "err", err, "after", wait)
				retry.Reset(wait)
				wait = min(2*wait, lastRetry)
			} else {
				retry.Stop()
				wait = firstRetry
				if !ready {
					ready = true
					close(e.ready)
				}
			}
			// Changes that come in a flood are taken in together: they wait while tables are computed.
			breathe := time.NewTimer(breath)
			select {
			case <-ctx.Done():
			case <-breathe.C:
			}
			breathe.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		case <-retry.C:
		case <-resync.C:
			full = true
		}
	}
}

func (e *Enforcer) isSynced() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.synced
}

// syncer is Run's own state: one goroutine uses it.
type syncer struct {
	*Enforcer
	datapath *datapath
	maps     Maps
	st       *state
	groups   map[string]*group
	attached map[string]int // index by interface, of those that have this run's programs
	own      map[netip.Addr]bool
	causes   map[types.NamespacedName]*pending.Cause // of changes that could not be written yet
	settling pending.Waiters
	problems map[types.NamespacedName]string
}

// round is what one sync works on.
type round struct {
	wanted
	sandboxes  map[string]*sandbox
	interfaces map[string]int // index by name, of the node's
	links      map[string]int // those of them that are sandboxes'
	problems   map[types.NamespacedName]string
	policies   int
	refused    int
}

// sync writes what changed; with full set it first reads the maps again and compares everything.
func (s *syncer) sync(ctx context.Context, full bool) error {
	began := s.cfg.Now()
	if full || s.st == nil {
		if err := s.read(); err != nil {
			return err
		}
		full = true
	}
	r, err := s.collect(full)
	if err != nil {
		return err
	}
	p := makePlan(s.st, r.wanted)
	err = errors.Join(apply(s.maps, s.st, p), s.attach(r.links))
	s.settle(ctx, r, p, err)
	// Every packet meets the new rules by now; what is left is tidying, and waits for programs.
	err = errors.Join(err, collect(s.maps, s.st), s.datapath.tidy(r.interfaces))
	if !p.empty() || full {
		s.metrics.seconds.Observe(s.cfg.Now().Sub(began).Seconds())
	}
	s.count(r)
	return err
}

// read takes the state anew from the kernel.
func (s *syncer) read() error {
	s.st = nil
	if s.cfg.LocalAddresses != nil {
		addresses, err := s.cfg.LocalAddresses()
		if err != nil {
			return fmt.Errorf("list local addresses: %w", err)
		}
		s.own = map[netip.Addr]bool{}
		for _, a := range addresses {
			s.own[a.Unmap()] = true
		}
	}
	st, err := readState(s.maps)
	if err != nil {
		return err
	}
	clear(s.attached)
	s.st = st
	return nil
}

// collect works out what the maps are to hold, and computes the tables that have changed.
func (s *syncer) collect(full bool) (round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	links, err := pinned.Interfaces() // after the sandboxes that it is about were made
	if err != nil {
		return round{}, err
	}
	changed := s.changed
	s.changed = map[string]bool{}
	s.settling.Take(&s.waiting)
	s.takeCauses()
	r := round{
		wanted:     wanted{subjects: map[uint32][2]string{}, tables: map[string]*Table{}, own: s.own, left: map[uint32]bool{}},
		interfaces: links, links: map[string]int{}, sandboxes: map[string]*sandbox{}, problems: map[types.NamespacedName]string{},
	}
	for key, problems := range s.world.problems {
		r.problems[key] = strings.Join(problems, "; ")
	}
	groups := map[string]*group{}
	for id, box := range s.sandboxes {
		name := s.cfg.Link(id)
		index, ok := links[name]
		if !ok {
			// Its interface is gone with it, or it has none of ours.
			if box.stands {
				delete(s.sandboxes, id)
				continue
			}
			r.sandboxes[id] = box
			continue
		}
		r.sandboxes[id], r.links[name] = box, index
		var of [2]string
		for _, d := range directions {
			key, g := s.world.groupOf(box.pod, d)
			if of[d] = key; key == "" || groups[key] != nil {
				continue
			}
			if have := s.groups[key]; have != nil && !full && have.current(g, changed) {
				g = have
			} else {
				g.fill(s.world)
			}
			groups[key], r.tables[key] = g, &g.table
		}
		r.subjects[uint32(index)] = of
	}
	for _, index := range links {
		if _, ok := r.subjects[uint32(index)]; !ok {
			r.left[uint32(index)] = true
		}
	}
	s.groups = groups
	for _, g := range groups {
		if g.ranges <= maxRanges {
			continue
		}
		r.refused++
		for _, p := range g.policies {
			r.problems[types.NamespacedName{Namespace: p.namespace, Name: p.name}] = fmt.Sprintf(
				"the policies for a pod name %d different ranges of ports for %s, more than the %d that can be told apart: nothing is let pass", g.ranges, g.direction, maxRanges)
		}
	}
	for _, in := range s.world.policies {
		r.policies += len(in)
	}
	return r, nil
}

// takeCauses takes over the changes of policies; s.mu is held.
func (s *syncer) takeCauses() {
	if s.causes == nil {
		s.causes = map[types.NamespacedName]*pending.Cause{}
	}
	for key, c := range s.Enforcer.causes {
		if earlier := s.causes[key]; earlier != nil {
			c.Merge(earlier)
		}
		s.causes[key] = c
	}
	clear(s.Enforcer.causes)
}

// attach puts the programs at interfaces that have not got them. Their rules stand.
func (s *syncer) attach(links map[string]int) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if s.attached[name] == links[name] {
			continue
		}
		if err := s.datapath.attach(name, links[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		s.attached[name] = links[name]
	}
	for name := range s.attached {
		if _, ok := links[name]; !ok {
			delete(s.attached, name)
		}
	}
	return errors.Join(errs...)
}

// settle tells those who wait, and whom problems concern.
func (s *syncer) settle(ctx context.Context, r round, p plan, err error) {
	for key, c := range s.causes {
		if !c.Traced() {
			continue
		}
		span := c.Start(ctx, s.cfg.Tracer, "netpol.update",
			attribute.String("k8s.kind", "NetworkPolicy"),
			attribute.String("k8s.namespace", key.Namespace),
			attribute.String("k8s.name", key.Name))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End(trace.WithTimestamp(s.cfg.Now()))
	}
	clear(s.causes)
	for key, message := range r.problems {
		if s.problems[key] != message {
			s.cfg.Problem(key, message)
		}
	}
	s.problems = r.problems
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, box := range r.sandboxes {
		if !box.stands && s.inForce(r, p, id) {
			box.stands = true
			close(box.done)
		}
	}
	if err != nil {
		return
	}
	s.settling.Release()
}

// inForce says whether a sandbox's rules are written and its programs attached; without an interface it has none.
func (s *syncer) inForce(r round, p plan, id string) bool {
	name := s.cfg.Link(id)
	index, ok := r.links[name]
	if !ok {
		return true
	}
	have, written := s.st.subjects[uint32(index)]
	if !written || s.attached[name] != index {
		return false
	}
	for _, d := range directions {
		if have.Sets[d] != p.sets[r.subjects[uint32(index)][d]] {
			return false
		}
	}
	return true
}

func (s *syncer) count(r round) {
	isolated := 0
	for _, of := range r.subjects {
		if of != [2]string{} {
			isolated++
		}
	}
	s.metrics.policies.Set(float64(r.policies))
	s.metrics.subjects.Set(float64(isolated))
	s.metrics.entries.Set(float64(s.st.entries()))
	s.metrics.refused.Set(float64(r.refused))
}
