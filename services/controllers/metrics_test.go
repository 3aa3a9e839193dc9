package controllers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object/objecttest"
)

// TestRunningControllers: those that are enabled, and have something to do, are told of; they run while the process leads.
func TestRunningControllers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s, err := New(Config{Objects: objecttest.New().Serve(t), Leadership: leadingtest.New(), Clock: clock.RealClock{}, Registerer: registry, Enabled: "job,podgc,nodeipam"})
	if err != nil {
		t.Fatal(err)
	}
	running := func(value int) error {
		text := "# HELP running_managed_controllers 1 where a controller runs, 0 where it stands by.\n# TYPE running_managed_controllers gauge\n"
		for _, name := range []string{"job", "podgc"} { // there are no ranges for nodeipam to give
			text += fmt.Sprintf("running_managed_controllers{manager=\"controllers\",name=%q} %d\n", name, value)
		}
		return testutil.GatherAndCompare(registry, strings.NewReader(text), "running_managed_controllers")
	}
	if err := running(0); err != nil {
		t.Error(err)
	}
	s.life.Load().leading.Store(true)
	if err := running(1); err != nil {
		t.Error(err)
	}
}
