package cache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// world is a cache over a store in memory that holds pods.
type world struct {
	t     *testing.T
	kind  *registry.Kind
	store *memstore.Store
	cache *Cache
	pods  *Resource
}

func setup(t *testing.T) *world { return setupThrough(t, func(s Source) Source { return s }) }

// setupThrough is setup with something between the cache and its store.
func setupThrough(t *testing.T, between func(Source) Source) *world {
	kind := podKind()
	table := tableOf(t, kind)
	w := &world{t: t, kind: kind, store: memstore.New()}
	w.cache = New(between(w.store), table, clock.RealClock{}, nil)
	w.pods = w.cache.For(kind)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-w.cache.Ready()
	return w
}

func podKind() *registry.Kind {
	return &registry.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Singular: "pod", Namespaced: true,
		New: func() registry.Object { return &corev1.Pod{} }, NewList: func() runtime.Object { return &corev1.PodList{} },
		SelectableFields: func(o registry.Object) fields.Set { return fields.Set{"spec.nodeName": o.(*corev1.Pod).Spec.NodeName} },
		StoredAt:         map[string][]int{"spec.nodeName": {2, 10}}, Indexed: []string{"spec.nodeName"},
	}
}

// encoded is a pod as it is stored.
func encoded(t testing.TB, kind *registry.Kind, name, node, label string) []byte {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"l": label}}, Spec: corev1.PodSpec{NodeName: node}}
	value, err := codec.Encode(context.Background(), kind, pod)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func tableOf(t *testing.T, kind *registry.Kind) *registry.Table {
	t.Helper()
	table, err := registry.NewTable([]*registry.Kind{kind})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (w *world) put(name, node, label string) int64 {
	w.t.Helper()
	write := store.Write{Op: store.Create, Key: w.kind.Key("ns", name), Value: encoded(w.t, w.kind, name, node, label)}
	if w.pods.Get(write.Key) != nil {
		write.Op = store.Update
	}
	return w.commit(write)
}

func (w *world) commit(write store.Write) int64 {
	w.t.Helper()
	r := w.store.Write(context.Background(), write)
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
	if err := w.cache.WaitFor(context.Background(), r.Revision); err != nil {
		w.t.Fatal(err)
	}
	return r.Revision
}

func (w *world) remove(name string) int64 {
	return w.commit(store.Write{Op: store.Delete, Key: w.kind.Key("ns", name)})
}

// events takes everything that has arrived.
func events(t *testing.T, w *Watcher) string {
	t.Helper()
	list, err := w.Take()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range list {
		text += fmt.Sprintf("%s %s@%d ", e.Type, e.Item.Name, e.Revision)
	}
	return text
}

func TestIndexedWatchers(t *testing.T) {
	w := setup(t)
	start := func(s Scope) *Watcher {
		watcher, err := w.pods.Watch(s, w.cache.Applied())
		if err != nil {
			t.Fatal(err)
		}
		return watcher
	}
	all, byName, byNode := start(Scope{}), start(Scope{Namespace: "ns", Name: "a"}), start(Scope{Field: "spec.nodeName", Value: "n1"})
	byNamespace, elsewhere := start(Scope{Namespace: "ns"}), start(Scope{Namespace: "other"})
	w.put("a", "", "")
	w.put("b", "n1", "")
	w.put("a", "n1", "")
	w.put("a", "n2", "")
	w.remove("b")
	for name, c := range map[string]struct {
		watcher *Watcher
		want    string
	}{
		"all":       {all, "ADDED a@1 ADDED b@2 MODIFIED a@3 MODIFIED a@4 DELETED b@5 "},
		"namespace": {byNamespace, "ADDED a@1 ADDED b@2 MODIFIED a@3 MODIFIED a@4 DELETED b@5 "},
		"name":      {byName, "ADDED a@1 MODIFIED a@3 MODIFIED a@4 "},
		"node":      {byNode, "ADDED b@2 MODIFIED a@3 MODIFIED a@4 DELETED b@5 "},
		"elsewhere": {elsewhere, ""},
	} {
		if got := events(t, c.watcher); got != c.want {
			t.Errorf("%s: %q, wanted %q", name, got, c.want)
		}
		c.watcher.Stop()
	}
	if n := w.pods.Watchers(); n != 0 {
		t.Errorf("%d watchers are left", n)
	}
	resumed, err := w.pods.Watch(Scope{Field: "spec.nodeName", Value: "n1"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := events(t, resumed); got != "MODIFIED a@3 MODIFIED a@4 DELETED b@5 " {
		t.Errorf("resumed: %q", got)
	}
}

func TestASlowWatcherIsEnded(t *testing.T) {
	w := setup(t)
	slow, err := w.pods.Watch(Scope{}, w.cache.Applied())
	if err != nil {
		t.Fatal(err)
	}
	quick, err := w.pods.Watch(Scope{}, w.cache.Applied())
	if err != nil {
		t.Fatal(err)
	}
	took := 0
	for i := range maxBuffer + 10 {
		w.put("a", "", fmt.Sprint(i))
		list, err := quick.Take()
		if err != nil {
			t.Fatal(err)
		}
		took += len(list)
	}
	if took != maxBuffer+10 {
		t.Errorf("the quick one got %d events", took)
	}
	if _, err := slow.Take(); !errors.Is(err, ErrSlow) {
		t.Errorf("the slow one: %v", err)
	}
	if _, err := w.pods.Watch(Scope{}, 1); !IsTooOld(err) {
		t.Errorf("a watch from before the ring: %v", err)
	}
}

func TestListsAndSnapshots(t *testing.T) {
	w := setup(t)
	for i := range 10 {
		w.put(fmt.Sprintf("p%d", i), "", fmt.Sprint(i%2))
	}
	first := w.pods.List(Query{Limit: 3})
	if len(first.Items) != 3 || first.Next == "" || first.Remaining != 7 || first.Revision != 10 {
		t.Fatalf("%+v", first)
	}
	w.remove("p5")
	second, err := w.pods.At(t.Context(), Query{Limit: 100, After: first.Next}, first.Revision)
	if err != nil || len(second.Items) != 7 || second.Revision != 10 {
		t.Fatalf("%d items at %d, %v", len(second.Items), second.Revision, err)
	}
	odd := labels.SelectorFromSet(labels.Set{"l": "1"})
	if page := w.pods.List(Query{Label: odd, Limit: 2}); len(page.Items) != 2 || page.Remaining != -1 {
		t.Errorf("%+v", page)
	}
	if page := w.pods.List(Query{Namespace: "other"}); len(page.Items) != 0 {
		t.Errorf("%+v", page)
	}
	past, err := w.pods.At(t.Context(), Query{}, 4) // from the store
	if err != nil || len(past.Items) != 4 {
		t.Errorf("%d items, %v", len(past.Items), err)
	}
}

func TestWaitForTheFuture(t *testing.T) {
	w := setup(t)
	w.put("a", "", "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.cache.WaitFor(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := w.cache.Fresh(t.Context()); err != nil {
		t.Error(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- w.cache.WaitFor(context.Background(), 2) }()
	w.put("b", "", "")
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestNewestStateThatDoesNotCome: a read of it is not told of a revision that it has not named.
func TestNewestStateThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Cache{ready: make(chan struct{}), source: revisions{newest: func(context.Context) (int64, error) { return 7, nil }}}
		close(c.ready)
		c.applied.Store(6)
		start := time.Now()
		if err := c.Fresh(t.Context()); !errors.Is(err, ErrBehind) || time.Since(start) != newestWait {
			t.Errorf("the newest: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		behind := &BehindError{}
		if err := c.WaitFor(t.Context(), 8); !errors.As(err, &behind) || errors.Is(err, ErrBehind) || *behind != (BehindError{8, 6}) || time.Since(start) != freshWait {
			t.Errorf("one that was named: %v after %v", err, time.Since(start))
		}
		if len(c.waiters) > 0 {
			t.Errorf("%d wait still", len(c.waiters))
		}
	})
}

func TestReadsWaitForTheFirstState(t *testing.T) {
	w := setup(t)
	empty := New(w.store, w.cache.table, clock.RealClock{}, nil) // nobody runs it
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := empty.Loaded(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("for a client that goes: %v", err)
	}
	if err := empty.Loaded(t.Context()); !errors.Is(err, ErrLoading) {
		t.Errorf("any state: %v", err)
	}
	if err := empty.WaitFor(t.Context(), 1); !errors.Is(err, ErrLoading) {
		t.Errorf("a revision: %v", err)
	}
	if err := w.cache.Loaded(ended); err != nil {
		t.Errorf("with a state: %v", err)
	}
}

// revisions is a source whose newest revision is asked of somebody else.
type revisions struct {
	Source
	newest func(ctx context.Context) (int64, error)
}

func (r revisions) Revision(ctx context.Context) (int64, error) { return r.newest(ctx) }

// TestAnyStateIsTheNewestWhereThatCanBeHad waits for what others have written, and not while the store is away.
func TestAnyStateIsTheNewestWhereThatCanBeHad(t *testing.T) {
	asked := make(chan struct{})
	w := setupThrough(t, func(s Source) Source {
		return revisions{s, func(context.Context) (int64, error) { close(asked); return 1, nil }}
	})
	read := make(chan error, 1)
	go func() { read <- w.cache.Recent(context.Background()) }()
	<-asked
	w.put("a", "", "")
	if err := <-read; err != nil || w.cache.Applied() < 1 {
		t.Errorf("%v, as of %d", err, w.cache.Applied())
	}
	away := setupThrough(t, func(s Source) Source {
		return revisions{s, func(ctx context.Context) (int64, error) { <-ctx.Done(); return 0, ctx.Err() }}
	})
	if err := away.cache.Recent(t.Context()); err != nil {
		t.Errorf("while the store is away: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := away.cache.Recent(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("for a client that goes: %v", err)
	}
}

func TestARebuiltCacheEndsWatches(t *testing.T) {
	w := setup(t)
	watcher, err := w.pods.Watch(Scope{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.pods.replace(nil, 100)
	<-watcher.Signal()
	if _, err := watcher.Take(); !IsTooOld(err) {
		t.Errorf("%v", err)
	}
}

func TestRingKeepsWhatItMust(t *testing.T) {
	var r ring
	now := time.Now()
	for i := range int64(ringMin + 100) {
		r.push(&Event{Revision: i + 1, Item: &codec.Item{}, at: now})
	}
	r.age(now.Add(2 * ringAge))
	if kept, err := r.after(100); err != nil || len(kept) != ringMin {
		t.Errorf("%d events, %v", len(kept), err)
	}
	if _, err := r.after(99); !IsTooOld(err) {
		t.Errorf("%v", err)
	}
}

func TestRingIsBoundedByBytes(t *testing.T) {
	var r ring
	now := time.Now()
	kind := &registry.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true}
	value := make([]byte, ringBytes/1000)
	for i := range int64(3000) {
		r.push(&Event{Revision: i + 1, Item: codec.NewItem(kind, kind.Key("ns", "a"), value, i+1, 1), at: now})
	}
	kept, err := r.after(r.since)
	if err != nil || len(kept) != 1000 || r.bytes > ringBytes || kept[0].Revision != 2001 {
		t.Errorf("%d events of %d bytes, %v", len(kept), r.bytes, err)
	}
	if _, err := r.after(r.since - 1); !IsTooOld(err) {
		t.Errorf("%v", err)
	}
}

func TestWhatNobodyUsesIsForgotten(t *testing.T) {
	w := setup(t)
	for i := range 2*coolAtOnce + 10 {
		w.put(fmt.Sprintf("p%d", i), "", "")
	}
	decoded := func(name string) any {
		obj, err := w.pods.Get(w.kind.Key("ns", name)).Object()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	before := map[string]any{}
	for _, name := range []string{"p0", "p1500", "p2009"} {
		before[name] = decoded(name)
	}
	w.pods.cool()
	if decoded("p0") != before["p0"] {
		t.Error("what was just used is forgotten")
	}
	w.pods.cool()
	w.pods.cool()
	for name, was := range before {
		if decoded(name) == was {
			t.Errorf("%s is still in memory", name)
		}
	}
}
