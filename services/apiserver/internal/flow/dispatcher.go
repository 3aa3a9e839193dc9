// Package flow shares the API server's capacity among its callers, as FlowSchemas and PriorityLevelConfigurations say: API Priority
// and Fairness. A request is classified by the first schema that matches it; its priority level has a number of seats, some lent to
// and borrowed from others by demand; in a level, its flow waits in fair queues (package fair) when no seat is free.
package flow

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/services/apiserver/internal/flow/fair"
)

// Config is what a dispatcher needs.
type Config struct {
	// Seats is the number of requests that run at a time, in all levels but the exempt ones.
	Seats int
	// RequestTimeout is how long a request may take at most; a quarter of what is left of it may be spent waiting.
	RequestTimeout time.Duration
	// Source is where the configuration is found; nil: only Configure sets it.
	Source  Source
	Clock   clock.WithTickerAndDelayedExecution
	Metrics *Metrics
}

// Dispatcher decides when requests may run.
type Dispatcher struct {
	cfg     Config
	current atomic.Pointer[plan]

	// seen are the source's revisions that are in force.
	seen      atomic.Pointer[[2]int64]
	following sync.Mutex

	watches watches

	mu     sync.Mutex // of what follows, and of changing the plan
	levels map[string]*level
}

// plan is a configuration, ready to be asked.
type plan struct {
	schemas []*schema
}

// schema is one FlowSchema and what its requests are counted by.
type schema struct {
	object *flowcontrolv1.FlowSchema
	level  *level
	// levelUID is the UID of its priority level.
	levelUID string
	counts   *counts
}

// New returns a dispatcher that has the mandatory configuration until Configure is called.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{cfg: cfg, levels: map[string]*level{}}
	d.Configure(nil, nil)
	return d
}

// Ticket is the permission to run. Its Leave must be called when the request has ended; a second call does nothing.
type Ticket struct {
	// SchemaUID and LevelUID are told to the caller in headers.
	SchemaUID, LevelUID string
	Schema, Level       string
	seat                *seat
	schema              *schema
	begin               time.Time
	watch, writes       bool
	left                atomic.Bool
	clock               clock.PassiveClock
	forget              func() // the watch that the request is, if it is one
}

// Leave gives the seats back, if need be after the events of a write were told.
func (t *Ticket) Leave() {
	if t == nil || t.left.Swap(true) {
		return
	}
	t.schema.counts.finished(t.clock.Since(t.begin), t.watch, t.writes)
	t.seat.leave()
}

// End is Leave where the request is over: a watch has left when it had begun.
func (t *Ticket) End() {
	t.Leave()
	if t != nil && t.forget != nil {
		t.forget()
	}
}

// Enter waits until the request may run. The error is a 429, and the ticket then only names schema and level.
func (d *Dispatcher) Enter(ctx context.Context, r *Request) (*Ticket, error) {
	d.follow()
	s := d.classify(r)
	told := 0
	if r.told() {
		told = d.watches.interested(r.watched())
		s.counts.watches.Observe(float64(told))
	}
	work := estimate(r.Width, told, int(s.level.widest.Load()))
	t := &Ticket{
		SchemaUID: string(s.object.UID), LevelUID: s.levelUID, Schema: s.object.Name, Level: s.level.name, schema: s, clock: d.cfg.Clock,
		watch: r.Verb == "watch", writes: r.writes(),
	}
	begin := d.cfg.Clock.Now()
	s.counts.arrived(work.Width(), t.writes)
	who := &presence{request: *r, schema: s.object.Name, work: work, counts: s.counts}
	seat, waited, reason := s.level.enter(ctx, who, flowHash(s.object, r), d.patience(ctx))
	s.counts.enqueued(who.length)
	s.counts.decided(d.cfg.Clock.Since(begin), waited, reason, work.Width(), t.writes)
	if reason != "" {
		t.left.Store(true)
		return t, apierrors.NewTooManyRequests(apistatus.TooManyRequests, s.level.refusals.retryAfter(d.cfg.Clock.Now()))
	}
	if t.watch && r.Path == "" && !r.Uncounted {
		t.forget = d.watches.add(r.watched())
	}
	t.seat, t.begin = seat, d.cfg.Clock.Now()
	return t, nil
}

// patience is how long the request may wait in a queue.
func (d *Dispatcher) patience(ctx context.Context) time.Duration {
	left := d.cfg.RequestTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return max(left/4, 0)
}

// Classify returns by which schema and at which level a request counts that need not wait.
func (d *Dispatcher) Classify(r *Request) (schemaUID, levelUID string) {
	d.follow()
	s := d.classify(r)
	return string(s.object.UID), s.levelUID
}

func (d *Dispatcher) classify(r *Request) *schema {
	schemas := d.current.Load().schemas
	for _, s := range schemas {
		if matches(&s.object.Spec, r) {
			return s
		}
	}
	return schemas[len(schemas)-1] // the catch-all, which matches whoever is in one of the two groups; all are
}

// Configure puts a configuration into force: the objects as they stand, completed by the mandatory ones. A schema whose level is
// missing is passed over; it is dangling.
func (d *Dispatcher) Configure(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	schemas, levels = complete(schemas, levels)
	order(schemas)
	d.mu.Lock()
	defer d.mu.Unlock()
	shares, running, waiting := 0.0, 0.0, 0
	for _, l := range levels {
		shares += sharesOf(&l.Spec)
	}
	uids, alive := map[string]string{}, map[string]*level{}
	for _, l := range levels {
		state := d.levels[l.Name]
		if state == nil {
			state = &level{name: l.Name, clock: d.cfg.Clock, present: map[*presence]struct{}{}, gauges: d.cfg.Metrics.gauges(l.Name), seats: d.cfg.Seats}
		}
		exempt, shape, c := compile(&l.Spec, float64(d.cfg.Seats), shares)
		state.configure(exempt, shape, c)
		running, waiting = running+c.nominal, waiting+shape.Queues*shape.QueueLength
		alive[l.Name], uids[l.Name] = state, string(l.UID)
	}
	// A level that is gone serves those who wait in it; nobody comes any more.
	for name := range d.levels {
		if alive[name] == nil {
			d.cfg.Metrics.forget(name)
		}
	}
	d.levels = alive
	d.cfg.Metrics.ratios.relate(running, float64(waiting))
	p := &plan{}
	for _, s := range schemas {
		if to := alive[s.Spec.PriorityLevelConfiguration.Name]; to != nil {
			p.schemas = append(p.schemas, &schema{object: s, level: to, levelUID: uids[to.name], counts: d.cfg.Metrics.counts(to.name, s.Name)})
		}
	}
	d.current.Store(p)
	d.adjust()
}

// complete adds the mandatory objects where they are missing: without them, nothing could be classified.
func complete(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) ([]*flowcontrolv1.FlowSchema, []*flowcontrolv1.PriorityLevelConfiguration) {
	known := map[string]bool{}
	for _, s := range schemas {
		known["schema/"+s.Name] = true
	}
	for _, l := range levels {
		known["level/"+l.Name] = true
	}
	schemas, levels = append([]*flowcontrolv1.FlowSchema(nil), schemas...), append([]*flowcontrolv1.PriorityLevelConfiguration(nil), levels...)
	want := Mandatory()
	for _, s := range want.Schemas {
		if !known["schema/"+s.Name] {
			schemas = append(schemas, s)
		}
	}
	for _, l := range want.Levels {
		if !known["level/"+l.Name] {
			levels = append(levels, l)
		}
	}
	return schemas, levels
}

func sharesOf(spec *flowcontrolv1.PriorityLevelConfigurationSpec) float64 {
	switch {
	case spec.Limited != nil && spec.Limited.NominalConcurrencyShares != nil:
		return float64(*spec.Limited.NominalConcurrencyShares)
	case spec.Exempt != nil && spec.Exempt.NominalConcurrencyShares != nil:
		return float64(*spec.Exempt.NominalConcurrencyShares)
	}
	return 0
}

// compile turns a level's spec into seats and queues.
func compile(spec *flowcontrolv1.PriorityLevelConfigurationSpec, total, shares float64) (exempt bool, shape fair.Config, c claim) {
	if shares > 0 {
		c.nominal = math.Ceil(total * sharesOf(spec) / shares)
	}
	lendable, borrowing := 0.0, total
	if l := spec.Limited; l != nil {
		lendable = percent(l.LendablePercent)
		if l.BorrowingLimitPercent != nil {
			borrowing = c.nominal * percent(l.BorrowingLimitPercent)
		}
		if q := l.LimitResponse.Queuing; q != nil && l.LimitResponse.Type == flowcontrolv1.LimitResponseTypeQueue {
			shape = fair.Config{Queues: int(q.Queues), HandSize: int(q.HandSize), QueueLength: int(q.QueueLengthLimit)}
		}
	}
	if e := spec.Exempt; e != nil {
		lendable = percent(e.LendablePercent)
	}
	c.least = c.nominal - math.Round(c.nominal*lendable)
	c.most = c.nominal + borrowing
	return spec.Type == flowcontrolv1.PriorityLevelEnablementExempt, shape, c
}

func percent(p *int32) float64 {
	if p == nil {
		return 0
	}
	return float64(*p) / 100
}

// adjustEvery is the time between two divisions of the seats among the levels.
const adjustEvery = time.Second

// Run divides the seats by demand until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	ticker := d.cfg.Clock.NewTicker(adjustEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			d.mu.Lock()
			d.adjust()
			d.mu.Unlock()
		}
	}
}

// adjust gives every level the seats that are its due now.
func (d *Dispatcher) adjust() {
	names, claims := make([]string, 0, len(d.levels)), make([]claim, 0, len(d.levels))
	for name, l := range d.levels {
		c, of := l.measure()
		names, claims = append(names, name), append(claims, c)
		d.cfg.Metrics.wanted(name, of)
	}
	// Shares are rounded up, so that together they are some more than the seats: that is what is divided, as in Kubernetes.
	total := 0.0
	for _, c := range claims {
		total += c.nominal
	}
	seats, fraction := share(total, claims)
	for i, name := range names {
		limit := int(math.Round(seats[i]))
		if claims[i].nominal > 0 { // only a level that has no share at all is to be closed
			limit = max(limit, 1)
		}
		d.levels[name].limit(limit)
		d.cfg.Metrics.divided(name, claims[i], limit)
	}
	d.cfg.Metrics.fraction(fraction)
}
