package pleg

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/fakecri"
)

type nobody struct{}

func (nobody) Wake(types.UID)                  {}
func (nobody) Knows(types.UID) bool            { return true }
func (nobody) Adopt(types.UID, string, string) {}

func TestListsAreMeasured(t *testing.T) {
	t.Parallel()
	runtime, clk, registry := fakecri.New(), clocktesting.NewFakeClock(time.Unix(1000, 0)), prometheus.NewRegistry()
	listed := make(chan bool)
	g := New(runtime, nobody{}, clk, func(ok bool) { listed <- ok }, registry)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	next := func() {
		t.Helper()
		for {
			select {
			case <-listed:
				return
			case <-time.After(5 * time.Millisecond):
				clk.Step(every)
			}
		}
	}
	next()
	next()
	runtime.Fail("ListContainers", errors.New("away"))
	next()
	next()
	cancel()
	<-done
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	if n := got["kubelet_pleg_relist_duration_seconds"]; n < 4 {
		t.Errorf("%v lists are measured, not 4", n)
	}
	if n := got["kubelet_pleg_relist_interval_seconds"]; n < 3 {
		t.Errorf("%v pauses are measured, not 3", n)
	}
	if last, now := got["kubelet_pleg_last_seen_seconds"], float64(clk.Now().Unix()); last < 1000 || last >= now {
		t.Errorf("the last answer is of %v; it is %v, and the runtime was away since", last, now)
	}
}
