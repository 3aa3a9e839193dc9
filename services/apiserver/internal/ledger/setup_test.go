package ledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/internal/quota"
)

const counted = corev1.ResourceName("count/configmaps")

var quotaKind = &registry.Kind{
	GVK: corev1.SchemeGroupVersion.WithKind("ResourceQuota"), Resource: "resourcequotas", Singular: "resourcequota", Namespaced: true,
	New: func() registry.Object { return &corev1.ResourceQuota{} }, NewList: func() runtime.Object { return &corev1.ResourceQuotaList{} },
}

// fault is what happens to one write in place of, or besides, the store's own answer.
type fault struct {
	err    error  // the answer; nil: the store's own
	landed bool   // the store has written all the same; what it does not take keeps its answer
	before func() // is called before the store is asked
	after  func() // is called when the store has answered, before the caller knows
}

// faulty is a store of which single writes and reads fail.
type faulty struct {
	*memstore.Store

	mu     sync.Mutex
	faults []fault // of the next writes, in order
	rule   func(n int) fault
	writes int
	deaf   chan struct{} // while it is open, tails hear nothing
	behind error         // what Revision answers
}

func (s *faulty) next() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	switch {
	case len(s.faults) > 0:
		f := s.faults[0]
		s.faults = s.faults[1:]
		return f
	case s.rule != nil:
		return s.rule(s.writes)
	}
	return fault{}
}

func (s *faulty) fail(faults ...fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

func (s *faulty) Write(ctx context.Context, w store.Write) store.Result {
	results, _ := s.WriteAtomic(ctx, []store.Write{w})
	return results[0]
}

func (s *faulty) WriteAtomic(ctx context.Context, ws []store.Write) (results []store.Result, err error) {
	f := s.next()
	if f.before != nil {
		f.before()
	}
	if f.err == nil || f.landed {
		results, err = s.Store.WriteAtomic(ctx, ws)
	}
	if f.landed && err != nil { // there was nothing to lose: the next one is lost
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = append([]fault{f}, s.faults...)
		return results, err
	}
	if f.err != nil {
		results, err = make([]store.Result, len(ws)), f.err
		for n := range results {
			results[n].Err = f.err
		}
	}
	if f.after != nil {
		f.after()
	}
	return results, err
}

func (s *faulty) Revision(ctx context.Context) (int64, error) {
	s.mu.Lock()
	err := s.behind
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return s.Store.Revision(ctx)
}

func (s *faulty) unread(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = err
}

// deafen keeps news from the cache until the returned function is called.
func (s *faulty) deafen() (hear func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deaf := make(chan struct{})
	s.deaf = deaf
	return sync.OnceFunc(func() { close(deaf) })
}

func (s *faulty) Tail(ctx context.Context, from int64, deliver func([]store.Event) error) error {
	return s.Store.Tail(ctx, from, func(events []store.Event) error {
		s.mu.Lock()
		deaf := s.deaf
		s.mu.Unlock()
		if deaf != nil {
			select {
			case <-deaf:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return deliver(events)
	})
}

// waits is a cache whose waits fail with err. Else they have as long as the caller, on a machine that is busy.
type waits struct {
	*cache.Cache
	store *faulty
	err   error
}

func (c *waits) WaitFor(ctx context.Context, revision int64) error {
	for c.err == nil {
		var behind *cache.BehindError
		if err := c.Cache.WaitFor(ctx, revision); !errors.As(err, &behind) {
			return err
		}
	}
	return c.err
}

func (c *waits) Fresh(ctx context.Context) error {
	revision, err := c.store.Revision(ctx)
	if err != nil {
		return err
	}
	return c.WaitFor(ctx, revision)
}

// server is what one apiserver has of the ledger.
type server struct {
	t      *testing.T
	store  *faulty
	cache  *waits
	ledger *Ledger
}

// open starts a server over the state.
func open(t *testing.T, state *memstore.Store) *server {
	t.Helper()
	table, err := registry.NewTable([]*registry.Kind{quotaKind})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, store: &faulty{Store: state}}
	s.cache = &waits{Cache: cache.New(s.store, table, clock.RealClock{}, nil), store: s.store}
	s.ledger = New(Config{Kind: quotaKind, Cache: s.cache, Store: s.store})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-s.cache.Ready()
	return s
}

// quota stores the quota q of a namespace, as its controller does, and has the server know it.
func (s *server) quota(namespace string, hard, used int64) {
	s.t.Helper()
	r := s.store.Store.Write(s.t.Context(), store.Write{Op: store.Create, Key: quotaKind.Key(namespace, "q"), Value: s.encode(namespace, hard, used)})
	if r.Err != nil {
		s.t.Fatal(r.Err)
	}
	s.catchUp()
}

func (s *server) encode(namespace string, hard, used int64) []byte {
	s.t.Helper()
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: listOf(hard)}, Status: corev1.ResourceQuotaStatus{Hard: listOf(hard), Used: listOf(used)}}
	q.Namespace, q.Name = namespace, "q"
	value, err := codec.Encode(s.t.Context(), quotaKind, q)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

func listOf(n int64) corev1.ResourceList {
	return corev1.ResourceList{counted: *resource.NewQuantity(n, resource.DecimalSI)}
}

// catchUp waits until the server knows all that is stored.
func (s *server) catchUp() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err := s.cache.Fresh(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// usage is what n configmaps more (or, below 0, fewer) consume in a namespace.
func usage(namespace string, n int64) *admission.Usage {
	write := quota.Write{Resource: schema.GroupResource{Resource: "configmaps"}, Object: &corev1.ConfigMap{}}
	return &admission.Usage{Namespace: namespace, Charge: func(q *corev1.ResourceQuota) (corev1.ResourceList, error) { return write.Charge(q, listOf(n)) }}
}

func keyOf(namespace, name string) string { return "/core/configmaps/" + namespace + "/" + name }

// creation is the creation of namespace/name, with its usage.
func creation(path string) *entry {
	namespace, name, _ := strings.Cut(path, "/")
	return &entry{
		usages: []*admission.Usage{usage(namespace, 1)}, done: make(chan struct{}),
		writes: []store.Write{{Op: store.Create, Key: keyOf(namespace, name), Value: []byte("{}")}},
	}
}

// together makes one entry of several.
func together(entries ...*entry) *entry {
	e := &entry{done: make(chan struct{})}
	for _, other := range entries {
		e.usages, e.writes = append(e.usages, other.usages...), append(e.writes, other.writes...)
	}
	return e
}

func (s *server) commit(ctx context.Context, e *entry) error {
	_, err := s.ledger.Commit(ctx, e.usages, e.writes)
	return err
}

// used is what the stored quota of a namespace says, and there are the configmaps that are stored in it.
func (s *server) used(namespace string) (used, there int64) {
	s.t.Helper()
	e, err := s.store.Get(s.t.Context(), quotaKind.Key(namespace, "q"))
	if err != nil {
		s.t.Fatal(err)
	}
	page, err := s.store.List(s.t.Context(), store.Query{Prefix: keyOf(namespace, "")})
	if err != nil {
		s.t.Fatal(err)
	}
	return usedOf(s.t, e.Key, e.Value), int64(len(page.Entries))
}

func usedOf(t *testing.T, key string, value []byte) int64 {
	t.Helper()
	obj, err := codec.NewItem(quotaKind, key, value, 1, 1).Object()
	if err != nil {
		t.Fatal(err)
	}
	n := obj.(*corev1.ResourceQuota).Status.Used[counted]
	return n.Value()
}

// exact checks that usage is what exists, and that it is so many.
func (s *server) exact(want map[string]int64) {
	s.t.Helper()
	for namespace, n := range want {
		if used, there := s.used(namespace); used != n || there != n {
			s.t.Errorf("%s: %d used, %d there, want %d", namespace, used, there, n)
		}
	}
}

// always checks that at every revision of the log at which a transaction ended usage was what existed, and within hard.
func (s *server) always(namespace string, hard int64) {
	s.t.Helper()
	end, err := s.store.Store.Revision(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	there, used := int64(0), int64(0)
	seen := errors.New("all is seen")
	err = s.store.Store.Tail(ctx, 0, func(events []store.Event) error {
		for _, e := range events {
			switch {
			case e.Key == quotaKind.Key(namespace, "q"):
				used = usedOf(s.t, e.Key, e.Value)
			case strings.HasPrefix(e.Key, keyOf(namespace, "")) && e.Type == store.Removed:
				there--
			case strings.HasPrefix(e.Key, keyOf(namespace, "")) && e.Revision == e.CreateRevision:
				there++
			}
			if e.Last && (used != there || used > hard) {
				s.t.Errorf("revision %d: %d used, %d there, %d allowed", e.Revision, used, there, hard)
			}
			if e.Revision == end {
				return seen
			}
		}
		return nil
	})
	if !errors.Is(err, seen) {
		s.t.Error(err)
	}
}
