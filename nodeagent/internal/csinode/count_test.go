package csinode

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

func TestDueDrivers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		asked   map[string]time.Time
		periods map[string]time.Duration
		due     []string
		next    time.Time
	}{
		"none":                        {map[string]time.Time{"a": now.Add(-time.Hour)}, nil, nil, time.Time{}},
		"not yet":                     {map[string]time.Time{"a": now.Add(-4 * time.Second)}, map[string]time.Duration{"a": 10 * time.Second}, nil, now.Add(6 * time.Second)},
		"one of two":                  {map[string]time.Time{"a": now.Add(-time.Minute), "b": now.Add(-time.Second)}, map[string]time.Duration{"a": time.Minute, "b": 10 * time.Second}, []string{"a"}, now.Add(9 * time.Second)},
		"again after a whole one":     {map[string]time.Time{"a": now.Add(-time.Hour)}, map[string]time.Duration{"a": 10 * time.Second}, []string{"a"}, now.Add(10 * time.Second)},
		"one that has not registered": {nil, map[string]time.Duration{"a": 10 * time.Second}, nil, time.Time{}},
	} {
		due, next := dueDrivers(c.asked, c.periods, now)
		if !slices.Equal(due, c.due) || !next.Equal(c.next) {
			t.Errorf("%s: %v, next %v; want %v, %v", name, due, next, c.due, c.next)
		}
	}
}

// TestCountFollowsTheDriver asks one driver by its period and out of turn, and another, which does not count, never.
func TestCountFollowsTheDriver(t *testing.T) {
	t.Parallel()
	k, client := setup(t)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	k.cfg.Clock = clk
	k.cfg.About = func(_ context.Context, name string) (*storagev1.CSIDriver, error) {
		switch name {
		case "counts":
			return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr.To[int64](10)}}, nil
		case "unknown":
			return nil, errors.New("away")
		}
		return nil, nil
	}
	counts := &fake{says: &csipb.NodeGetInfoResponse{NodeId: "i", MaxVolumesPerNode: 5}}
	still := &fake{says: &csipb.NodeGetInfoResponse{NodeId: "j", MaxVolumesPerNode: 7}}
	for name, f := range map[string]*fake{"counts": counts, "still": still, "unknown": {says: &csipb.NodeGetInfoResponse{NodeId: "k"}}} {
		if err := k.Register(t.Context(), f.serve(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	periods := k.periods(t.Context())
	if len(periods) != 1 || periods["counts"] != 10*time.Second {
		t.Fatalf("periods %v", periods)
	}
	said := func() (out []int32) {
		t.Helper()
		n, err := object.For(client, object.CSINode).Get(t.Context(), "", "n")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"counts", "still"} {
			for _, d := range n.Spec.Drivers {
				if d.Name == name && d.Allocatable != nil {
					out = append(out, *d.Allocatable.Count)
				}
			}
		}
		return out
	}
	step := func(what string, asked int, want ...int32) {
		t.Helper()
		next := k.count(t.Context(), periods)
		if got := said(); !slices.Equal(got, want) || counts.asked != asked || still.asked != 1 || !next.After(clk.Now()) {
			t.Errorf("%s: %v, want %v; asked %d and %d times, next %v", what, got, want, counts.asked, still.asked, next)
		}
	}
	counts.say(4)
	still.say(6)
	step("before its time", 1, 5, 7)
	clk.Step(10 * time.Second)
	step("by its period", 2, 4, 7)
	clk.Step(time.Second)
	counts.say(3)
	k.Ask("counts")
	k.Ask("counts")
	k.Ask("gone")
	step("out of turn", 3, 3, 7)
	clk.Step(9 * time.Second) // counted from the last time
	step("a period later", 3, 3, 7)
	clk.Step(time.Second)
	counts.say(0) // any number
	step("without a limit", 4, 7)
}

// TestRunCounts has the loop ask when it is woken, and by the period.
func TestRunCounts(t *testing.T) {
	t.Parallel()
	k, _ := setup(t)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	k.cfg.Clock = clk
	asked := make(chan struct{}, 100)
	k.cfg.About = func(context.Context, string) (*storagev1.CSIDriver, error) {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr.To[int64](10)}}, nil
	}
	f := &fake{says: &csipb.NodeGetInfoResponse{NodeId: "i", MaxVolumesPerNode: 5}, heard: func() { asked <- struct{}{} }}
	p := f.serve(t, "d")
	if err := k.Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	k.Ask("d")
	<-asked
	for stepped := false; !stepped; {
		select {
		case <-asked:
			stepped = true
		case <-time.After(time.Millisecond): // until it waits
			if clk.HasWaiters() {
				clk.Step(10 * time.Second)
			}
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
