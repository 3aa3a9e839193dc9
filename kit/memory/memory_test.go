package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 200, 1: 200, 50 << 20: 200, 88 << 20: 200, 96 << 20: 180, 112 << 20: 140, 136 << 20: 100, 160 << 20: 70, 224 << 20: 50, 400 << 20: 50, 4 << 30: 50} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// A steady load never meets the limit; what it is for is the time in which more lives than GOGC was set for.
func TestLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ live, other, want uint64 }{{0, 0, 256}, {20, 10, 256}, {96, 30, 336}, {112, 40, 352}, {4096, 50, 6240}} {
		got := limitFor(reading{live: c.live << 20, other: c.other << 20})
		if got>>20 != c.want {
			t.Errorf("%d MiB live and %d others: %d, want %d", c.live, c.other, got>>20, c.want)
		}
		if steady := c.live<<20 + c.live<<20*uint64(percentFor(c.live<<20))/100 + c.other<<20; got < steady+slack {
			t.Errorf("%d MiB live: the limit is %d, and GOGC lets it be %d", c.live, got>>20, steady>>20)
		}
	}
}

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	t.Parallel()
	var r reading
	var set []int
	var limits []uint64
	released := 0
	k := &Keeper{read: func() reading { return r }, percent: func(n int) { set = append(set, n) }, release: func() { released++ },
		limit: func(n uint64) { limits = append(limits, n>>20) }}
	now := time.Now()
	look := func(times int, allocates uint64) {
		for range times {
			r.allocated += allocates
			now = now.Add(every)
			k.look(now)
		}
	}
	r = reading{live: 140 << 20, held: 700 << 20}
	if look(20, 1<<30); released != 0 {
		t.Error("memory is given back in the middle of a load")
	}
	if look(quietLooks-1, 0); released != 0 {
		t.Error("a pause is no rest")
	}
	if look(3, 1<<20); released != 1 {
		t.Errorf("given back %d times at rest", released)
	}
	if look(int(between/every), 1<<20); released != 2 {
		t.Errorf("given back %d times, though there is more", released)
	}
	r.live, r.held = 50<<20, 60<<20
	if look(100, 0); released != 2 {
		t.Error("there is nothing worth the effort")
	}
	if len(set) != 2 || set[0] != 90 || set[1] != 200 {
		t.Errorf("GOGC was set to %v", set)
	}
	if len(limits) != 2 || limits[0] != 304 || limits[1] != 256 {
		t.Errorf("the limit was set to %v", limits)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{}, 8)
	fake := testingclock.NewFakeClock(time.Now())
	k := &Keeper{read: func() reading { looked <- struct{}{}; return reading{} }, percent: func(int) {}, limit: func(uint64) {}, release: func() {}, clock: fake}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	<-looked // the ticker stands by then
	fake.Step(every)
	<-looked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReadingTheRuntime(t *testing.T) {
	t.Setenv("GOGC", "100")
	t.Setenv("GOMEMLIMIT", "1TiB")
	k := New(clock.RealClock{})
	k.percent(1) // are left alone
	k.limit(1)
	if r := k.read(); r.held == 0 || r.allocated == 0 || r.other == 0 || r.other > 1<<32 {
		t.Errorf("%+v", r)
	}
}
