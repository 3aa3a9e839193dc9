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
	const none, small, large = 0, 4 << 10, 64 << 10
	for _, c := range []struct {
		live, machine uint64 // in MiB
		want          int
	}{
		{0, none, 200}, {1, none, 200}, {50, small, 200}, {88, none, 200}, {96, none, 180}, {112, large, 140}, {136, none, 100}, {160, none, 70}, {224, none, 50}, {512, large, 50},
		{640, none, 50}, {640, large, 70}, {800, large, 85}, {1024, large, 100}, {4096, large, 100}, {8192, large, 100}, {10240, large, 60}, {16384, large, 50},
		{640, small, 60}, {800, small, 50}, {4096, small, 50},
	} {
		if got := percentFor(c.live<<20, c.machine<<20); got != c.want {
			t.Errorf("%d MiB of %d: %d, want %d", c.live, c.machine, got, c.want)
		}
	}
}

// A steady load never meets the limit; what it is for is the time in which more lives than GOGC was set for.
func TestLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ live, other, want uint64 }{{0, 0, 256}, {20, 10, 256}, {96, 30, 336}, {112, 40, 352}, {500, 40, 832}, {1024, 50, 2400}, {4096, 50, 10080}} {
		const machine = 64 << 30
		got := limitFor(reading{live: c.live << 20, other: c.other << 20}, machine)
		if got>>20 != c.want {
			t.Errorf("%d MiB live and %d others: %d, want %d", c.live, c.other, got>>20, c.want)
		}
		if steady := c.live<<20 + c.live<<20*uint64(percentFor(c.live<<20, machine))/100 + c.other<<20; got < steady+slack {
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
