// Package ledger commits writes together with what they consume of resource quotas.
//
// A write and the new status.used of its namespace's quotas are one transaction, in which the quotas must still be at the revision
// that the sum was made from: usage is exact whatever the number of writers and apiservers, and a write that fails leaves none
// behind. Writes to one namespace that arrive while another is being committed are committed together, with one change of the
// quota; namespaces do not wait for each other.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	// maxGroup is how many writes with usage are committed together at most.
	maxGroup = 128
	// maxWrites is how many store writes such a group has at most, if it is not one caller's.
	maxWrites = 1024
	// maxBytes is how much the values of such a group weigh at most: one that is too big makes everyone wait for it.
	maxBytes = 8 << 20
	// commitTimeout bounds the commit of a group, which is no single caller's, and how long it is made anew because a quota moves on.
	commitTimeout = 20 * time.Second
	// streak is how many groups of a namespace follow each other at once; then there is a pause of courtesy. Another apiserver's group
	// always comes too late while this one's follow each other without a gap.
	streak   = 16
	courtesy = 2 * time.Millisecond
)

// Cache is where the newest quotas are known.
type Cache interface {
	For(kind *registry.Kind) *cache.Resource
	Fresh(ctx context.Context) error
	WaitFor(ctx context.Context, revision int64) error
}

// Config is what a ledger needs.
type Config struct {
	// Kind is that of ResourceQuota.
	Kind  *registry.Kind
	Cache Cache
	Store store.Writer
	// Manager is who charges quotas in their managed fields, and Track notes there what of a quota Manager has changed; nil notes nothing.
	Manager string
	Track   func(before, after *corev1.ResourceQuota)
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// Ledger commits writes with usage.
type Ledger struct {
	cfg     Config
	groups  prometheus.Histogram
	retries prometheus.Counter

	mu       sync.Mutex
	accounts map[string]*account
}

// New returns a ledger; it starts nothing.
func New(cfg Config) *Ledger {
	l := &Ledger{
		cfg: cfg, accounts: map[string]*account{},
		groups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_quota_group_writes", Help: "Writes with usage that were committed together.", Buckets: prometheus.ExponentialBuckets(1, 2, 8),
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_quota_retries_total", Help: "Groups of writes that were made anew because a quota had moved on.",
		}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(l.groups, l.retries)
	}
	return l
}

// Commit commits the writes, all or none, and what they consume. Its results are store.Writer's WriteAtomic's. Where the newest
// quotas refuse a usage the error is a *admission.RefusedError, and nothing is written.
func (l *Ledger) Commit(ctx context.Context, usages []*admission.Usage, writes []store.Write) ([]store.Result, error) {
	e := &entry{usages: usages, writes: slices.Clone(writes), done: make(chan struct{})}
	for i := range e.writes {
		if e.writes[i].Trace == "" { // the group is committed under another's context
			e.writes[i].Trace = obs.Traceparent(ctx)
		}
	}
	namespaces := e.namespaces()
	accounts := l.enter(namespaces)
	defer l.leave(namespaces)
	if len(accounts) == 1 {
		return l.together(ctx, accounts[0], e)
	}
	return l.alone(ctx, accounts, e)
}

// together commits the entry with others of its namespace.
func (l *Ledger) together(ctx context.Context, a *account, e *entry) ([]store.Result, error) {
	a.push(e)
	select {
	case <-e.done:
		return e.results, e.err
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		if a.withdraw(e) {
			return nil, late(e, ctx.Err())
		}
		<-e.done // it is being committed
		return e.results, e.err
	}
	defer func() { <-a.turn }()
	if err := ctx.Err(); err != nil && a.withdraw(e) { // select has picked one of two
		return nil, late(e, err)
	}
	for !e.finished() {
		if a.streak++; a.streak > streak {
			a.streak = 0
			time.Sleep(courtesy)
		}
		l.commit(ctx, []*account{a}, a.take())
	}
	if a.idle() {
		a.streak = 0
	}
	return e.results, e.err
}

// alone commits an entry that concerns several namespaces. Accounts are taken in the order of their names, so that two such
// entries never wait for each other.
func (l *Ledger) alone(ctx context.Context, accounts []*account, e *entry) ([]store.Result, error) {
	for n, a := range accounts {
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			for _, held := range accounts[:n] {
				<-held.turn
			}
			return nil, late(e, ctx.Err())
		}
	}
	defer func() {
		for _, a := range accounts {
			<-a.turn
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, late(e, err)
	}
	l.commit(ctx, accounts, []*entry{e})
	return e.results, e.err
}

// late is told to a caller that stopped waiting before its entry's turn: nothing was written.
func late(e *entry, cause error) error {
	return fmt.Errorf("wait for the quotas of namespace %s: %w (%w)", strings.Join(e.namespaces(), ", "), store.ErrUnavailable, cause)
}

// enter returns the accounts of the namespaces, and keeps them until leave.
func (l *Ledger) enter(namespaces []string) []*account {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*account
	for _, ns := range namespaces {
		a := l.accounts[ns]
		if a == nil {
			a = &account{namespace: ns, turn: make(chan struct{}, 1), known: map[string]*state{}}
			l.accounts[ns] = a
		}
		a.users++
		out = append(out, a)
	}
	return out
}

func (l *Ledger) leave(namespaces []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ns := range namespaces {
		if a := l.accounts[ns]; a != nil {
			if a.users--; a.users == 0 {
				delete(l.accounts, ns)
			}
		}
	}
}
