package federation

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
	"howdah.dev/services/federation/internal/member"
)

// link is what the leader has of one member: the way to it, the queue of what is to be carried there, and how that went. Each has its own, so that one that
// does not answer delays no other.
type link struct {
	l     *life
	name  string
	queue *reconcile.Controller
	wake  chan struct{} // a token: look at it now

	mu       sync.Mutex
	conn     *member.Member
	digest   string // of what conn was made of
	ready    bool
	outcomes map[api.ID]outcome
}

func (l *life) newLink(name string) *link {
	m := &link{l: l, name: name, wake: make(chan struct{}, 1), outcomes: map[api.ID]outcome{}}
	m.queue = reconcile.New(reconcile.Config{
		Name: "federation-carry-" + name, Kind: "object", Workers: l.cfg.Workers, Reconcile: m.reconcile, Metrics: l.metrics.queues, Clock: l.cfg.Clock,
	})
	return m
}

// runMembers runs a link for every cluster that there is, until ctx ends.
func (l *life) runMembers(ctx context.Context) error {
	type running struct {
		end  context.CancelFunc
		done chan struct{}
	}
	links := map[string]running{}
	stop := func(name string) {
		links[name].end()
		<-links[name].done
		delete(links, name)
		l.mu.Lock()
		delete(l.members, name)
		l.mu.Unlock()
	}
	defer func() {
		for name := range links {
			links[name].end()
		}
		for name := range links {
			<-links[name].done
		}
	}()
	for {
		there := map[string]bool{}
		for _, c := range l.clusters.List("") {
			there[c.Name] = true
			if _, ok := links[c.Name]; ok {
				continue
			}
			m := l.newLink(c.Name)
			l.mu.Lock()
			l.members[c.Name] = m
			l.mu.Unlock()
			run, end := context.WithCancel(ctx)
			done := make(chan struct{})
			links[c.Name] = running{end, done}
			go func() {
				defer close(done)
				_ = task.Run(run, m.queue.Run, m.run)
				m.close()
			}()
		}
		for name := range links {
			if !there[name] {
				stop(name)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.reset:
		}
	}
}

// member returns the link of a cluster; nil where there is none yet, or none any more.
func (l *life) member(name string) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members[name]
}

// carry asks for an object to be carried to a cluster, or from it.
func (l *life) carry(name, key string, by trace.SpanContext) {
	if m := l.member(name); m != nil {
		m.carry(key, by)
	}
}

func (l *life) eachMember(do func(*link)) {
	l.mu.Lock()
	var all []*link
	for _, m := range l.members {
		all = append(all, m)
	}
	l.mu.Unlock()
	for _, m := range all {
		do(m)
	}
}

func (m *link) carry(key string, by trace.SpanContext) { m.queue.Enqueue(key, by) }

// carryAll asks for all that is in the member of a kind.
func (m *link) carryAll(gvk schema.GroupVersionKind) {
	conn := m.connection()
	if conn == nil {
		return
	}
	all, _ := conn.All(gvk)
	for _, o := range all {
		m.carry(api.ID{GVK: gvk, Namespace: o.GetNamespace(), Name: o.GetName()}.String(), trace.SpanContext{})
	}
}

// changed is called when something that was carried changes in the member: it may have to be set right, and is told of.
func (m *link) changed(id api.ID) {
	m.carry(id.String(), trace.SpanContext{})
	m.l.statuses.EnqueueWithin(id.String(), trace.SpanContext{}, gatherWithin)
}

func (m *link) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *link) connection() *member.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn
}

func (m *link) isReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready && m.conn != nil
}

func (m *link) close() {
	m.mu.Lock()
	conn := m.conn
	m.conn, m.ready = nil, false
	m.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// live is what was carried, as far as is known.
func (m *link) live(id api.ID) (*unstructured.Unstructured, bool) {
	conn := m.connection()
	if conn == nil {
		return nil, false
	}
	return conn.Live(id)
}

// cached is live; a kind that is not followed yet is from now on. why says what is in the way.
func (m *link) cached(ctx context.Context, id api.ID) (live *unstructured.Unstructured, synced bool, why error) {
	live, synced = m.live(id)
	if synced {
		return live, true, nil
	}
	if err := m.noteKind(ctx, id.GVK); err != nil {
		return nil, false, nil // the federation's own API: again later
	}
	conn := m.connection()
	if conn == nil {
		return nil, false, nil
	}
	if err := conn.Follow(ctx, id.GVK); err != nil {
		return nil, false, err
	}
	return nil, false, conn.Problem(id.GVK)
}

// clean reports whether nothing of an object that the federation carried is in the member any more.
func (m *link) clean(id api.ID, federation string) bool {
	live, synced := m.live(id)
	return synced && (live == nil || !carry.Ours(live, federation))
}

// note keeps how it went, and reports whether that is something else than before.
func (m *link) note(id api.ID, o outcome) bool {
	m.mu.Lock()
	before, ok := m.outcomes[id]
	m.outcomes[id] = o
	m.mu.Unlock()
	if ok && before == o {
		return false
	}
	m.l.statuses.EnqueueWithin(id.String(), trace.SpanContext{}, gatherWithin)
	return true
}

func (m *link) forget(id api.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.outcomes, id)
}

// outcome is how it went last; what was not tried yet waits.
func (m *link) outcome(id api.ID) outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.outcomes[id]; ok {
		return o
	}
	return outcome{state: api.StateWaiting}
}

// sleep waits for a while, or until the link is woken.
func (m *link) sleep(ctx context.Context, d time.Duration) error {
	timer := m.l.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.wake:
	case <-timer.C():
	}
	return nil
}
