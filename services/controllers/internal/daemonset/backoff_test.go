package daemonset

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	b, ds, now := newBackoff(), newSet(), noon
	rest := func() time.Duration { return b.waits(ds, now)["n"] }
	if rest() != 0 {
		t.Error("the first failure has to wait")
	}
	want := time.Second
	for range 15 {
		b.failed(ds, []string{"n"}, now)
		if got := rest(); got != want {
			t.Errorf("wait of %v, want %v", got, want)
		}
		if b.waits(ds, now)["other"] != 0 {
			t.Error("another node waits, too")
		}
		now = now.Add(want)
		if rest() != 0 {
			t.Errorf("still waiting after %v", want)
		}
		want = min(2*want, 15*time.Minute)
	}

	ds.Status.ObservedGeneration++
	b.failed(ds, []string{"n"}, now)
	if got := rest(); got != time.Second {
		t.Errorf("wait of %v with a new spec, want 1s", got)
	}
	b.failed(ds, []string{"n"}, now)
	now = now.Add(calm + time.Second)
	b.failed(ds, []string{"n"}, now)
	if got := rest(); got != time.Second {
		t.Errorf("wait of %v after a calm time, want 1s", got)
	}
	b.forget(ds.UID)
	if rest() != 0 {
		t.Error("a set that is gone is remembered")
	}
}
