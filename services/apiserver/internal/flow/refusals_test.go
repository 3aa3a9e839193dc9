package flow

import (
	"math"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	var r refusals
	now := time.Unix(1_800_000_000, 0)
	// phase refuses so many a second for some seconds, and answers what the last one was told.
	phase := func(rate, seconds int) int {
		last := 0
		for range rate * seconds {
			last = r.retryAfter(now)
			now = now.Add(time.Second / time.Duration(rate))
		}
		return last
	}
	for _, step := range []struct{ rate, seconds, want int }{
		{1, 10, 1},     // as many as there are seconds: neither more nor less
		{10, 3, 2},     // ten in a second
		{10, 30, 32},   // twenty in two seconds, forty in four, …
		{100, 200, 64}, // never more
	} {
		if got := phase(step.rate, step.seconds); got != step.want {
			t.Errorf("%+v: %d", step, got)
		}
	}
	now = now.Add(time.Hour)
	r.retryAfter(now) // judges those of before
	now = now.Add(time.Hour)
	if got := r.retryAfter(now); got != 63 {
		t.Errorf("after a quiet hour: %d, want a second less", got)
	}
}

func TestDemand(t *testing.T) {
	t.Parallel()
	var d demand
	begin := time.Unix(1_800_000_000, 0)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	if w := d.period(at(0)); w != (wanted{}) {
		t.Errorf("nothing: %+v", w)
	}
	d.set(at(1), 4)
	d.set(at(3), 0)
	w := d.period(at(4))
	if w.average != 2 || math.Abs(w.deviation-2) > 1e-9 || w.peak != 4 {
		t.Errorf("four for half of the time: %+v", w)
	}
	d.set(at(5), 3)
	d.period(at(6))
	if w := d.period(at(8)); w != (wanted{average: 3, peak: 3}) {
		t.Errorf("three all the time: %+v", w)
	}
}
