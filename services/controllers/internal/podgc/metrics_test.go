package podgc

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestRemovalsAreCounted(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	c := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	for _, name := range []string{"x", "y"} {
		controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
	}
	gc := &podGC{client: c.Client, clock: clock.RealClock{}, metrics: m}
	var removals []Removal
	for _, p := range controllertest.List(c, object.Pod) {
		removals = append(removals, Removal{Pod: p, Cause: unscheduled})
	}
	if err := gc.remove(t.Context(), removals); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gc.remove(ctx, removals[:1]); err == nil {
		t.Error("a call that is broken off is no error")
	}
	for _, want := range []struct {
		metric *prometheus.CounterVec
		n      float64
	}{{m.pods, 3}, {m.errors, 1}} {
		if n := testutil.ToFloat64(want.metric.WithLabelValues("a", unscheduled)); n != want.n {
			t.Errorf("%v are counted, want %v", n, want.n)
		}
	}
	m.forget("b")
	m.removed(Removal{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b"}}, Cause: orphaned}, errors.New("no"))
	m.forget("a")
	if n := testutil.CollectAndCount(m.pods) + testutil.CollectAndCount(m.errors); n != 2 {
		t.Errorf("%d series are left, want 2", n)
	}
	(*Metrics)(nil).removed(Removal{}, nil)
	(*Metrics)(nil).forget("a")
}
