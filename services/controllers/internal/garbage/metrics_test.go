package garbage

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestMissedKindsAreCounted: the API cannot say which kinds it has, again and again.
func TestMissedKindsAreCounted(t *testing.T) {
	t.Parallel()
	listener := rpc.ListenInMemory()
	c := &controllertest.Cluster{T: t}
	serves := rpc.NewServer(nil, prometheus.NewRegistry()) // nothing
	c.Go(func(ctx context.Context) error { return serves.ServeUntil(ctx, listener) })
	conn, err := listener.Dial(rpc.User{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m, clock := NewMetrics(prometheus.NewRegistry()), testclock.NewFakeClock(time.Unix(1_700_000_000, 0))
	unit := New(&controller.Env{
		Client: object.NewClient(conn, "test"), Clock: clock, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
	}, m)
	c.Go(unit.Always[0])
	until(t, "first miss", func() bool { return testutil.ToFloat64(m.errors) == 1 })
	until(t, "second miss", func() bool {
		clock.Step(time.Second)
		return testutil.ToFloat64(m.errors) >= 2
	})
}

func TestWhatIsBrokenOffIsNoMiss(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.missed(ctx)
	(*Metrics)(nil).missed(t.Context())
	if n := testutil.ToFloat64(m.errors); n != 0 {
		t.Errorf("%v misses", n)
	}
}
