package expiry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// fake is a store with a count of writes a second, and a clock.
type fake struct {
	clock   *clocktesting.FakeClock
	items   map[string]*codec.Item
	newest  int64
	commits map[int64]time.Time
	kept    time.Duration // how long the log is kept
	broken  error
	removed []string
}

var kind = &registry.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Event"), Resource: "events", Namespaced: true}

func newFake() *fake {
	return &fake{clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)), items: map[string]*codec.Item{}, commits: map[int64]time.Time{}, kept: 24 * time.Hour}
}

func (f *fake) put(name string) {
	f.newest++
	f.commits[f.newest] = f.clock.Now()
	key := kind.Key("ns", name)
	f.items[key] = codec.NewItem(kind, key, nil, f.newest, f.newest)
}

func (f *fake) Revision(context.Context) (int64, error) { return f.newest, f.broken }

func (f *fake) RevisionAt(_ context.Context, at time.Time) (int64, error) {
	if f.clock.Now().Sub(at) > f.kept {
		return 0, store.ErrTooOld
	}
	found := int64(0)
	for revision, when := range f.commits {
		if !when.After(at) {
			found = max(found, revision)
		}
	}
	return found, f.broken
}

func (f *fake) write(_ context.Context, w store.Write) store.Result {
	i := f.items[w.Key]
	switch {
	case f.broken != nil:
		return store.Result{Err: f.broken}
	case i == nil:
		return store.Result{Err: store.ErrNotFound}
	case i.Revision != w.Revision:
		return store.Result{Err: &store.ConflictError{Current: i.Revision}}
	}
	delete(f.items, w.Key)
	f.removed = append(f.removed, i.Name)
	return store.Result{Revision: f.newest}
}

func (f *fake) list() (items []*codec.Item) {
	for _, i := range f.items {
		items = append(items, i)
	}
	return items
}

func (f *fake) sweeper(ttl time.Duration) *Sweeper {
	// One at a time: the fake is not made for more.
	lock := make(chan struct{}, 1)
	return New(Config{TTL: ttl, Items: f.list, Log: f, Clock: f.clock, Write: func(ctx context.Context, w store.Write) store.Result {
		lock <- struct{}{}
		defer func() { <-lock }()
		return f.write(ctx, w)
	}})
}

func (f *fake) left(t *testing.T, want ...string) {
	t.Helper()
	if len(f.items) != len(want) {
		t.Errorf("%d objects are left, want %q", len(f.items), want)
	}
	for _, name := range want {
		if f.items[kind.Key("ns", name)] == nil {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestSweepCountsFromTheLastWrite(t *testing.T) {
	f := newFake()
	s := f.sweeper(time.Hour)
	sweep := func() {
		t.Helper()
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f.put("old")
	f.put("again")
	f.clock.Step(30 * time.Minute)
	f.put("young")
	f.put("again")
	sweep()
	f.left(t, "old", "again", "young")
	f.clock.Step(30*time.Minute + time.Second)
	sweep()
	f.left(t, "again", "young")
	f.clock.Step(time.Hour)
	sweep()
	f.left(t)
}

func TestSweepAfterARestart(t *testing.T) {
	f := newFake()
	f.put("old")
	f.clock.Step(2 * time.Hour)
	f.put("young")
	if err := f.sweeper(time.Hour).Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	f.left(t, "young")
}

// TestSweepWithAShortLog goes by what the process has seen itself.
func TestSweepWithAShortLog(t *testing.T) {
	f := newFake()
	f.kept = time.Minute
	s := f.sweeper(time.Hour)
	f.put("old")
	for range 59 {
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		f.clock.Step(time.Minute)
	}
	f.put("young")
	f.left(t, "old", "young")
	f.clock.Step(time.Minute)
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	f.left(t, "young")
	if len(s.marks) > 61 {
		t.Errorf("%d moments are remembered", len(s.marks))
	}
}

func TestSweepLeavesWhatWasWrittenMeanwhile(t *testing.T) {
	f := newFake()
	f.put("a")
	f.put("gone")
	items := f.list()
	s := f.sweeper(time.Hour)
	s.cfg.Items = func() []*codec.Item { return items }
	f.clock.Step(2 * time.Hour)
	f.put("a")
	delete(f.items, kind.Key("ns", "gone"))
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	f.left(t, "a")
}

func TestSweepFailsAndGoesOn(t *testing.T) {
	f := newFake()
	for i := range 100 {
		f.put(fmt.Sprint(i))
	}
	s := f.sweeper(time.Hour)
	f.clock.Step(2 * time.Hour)
	f.broken = store.ErrUnavailable
	if err := s.Sweep(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	f.broken = nil
	s.cfg.Write = func(context.Context, store.Write) store.Result { return store.Result{Err: store.ErrUnknownOutcome} }
	if err := s.Sweep(t.Context()); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
	if err := f.sweeper(time.Hour).Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	f.left(t)
}

func TestTheTimeBetweenSweeps(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Minute: 3 * time.Second, time.Hour: 30 * time.Second} {
		if got := New(Config{TTL: ttl}).Every(); got != want {
			t.Errorf("with %s: %s, want %s", ttl, got, want)
		}
	}
}
