package servicelb

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

func TestFollowingNodesIsMeasured(t *testing.T) {
	t.Parallel()
	p := &cloud{there: map[string]string{}}
	c := &balancers{provider: p, events: &record.FakeRecorder{}, ensured: map[string]ensured{}, metrics: NewMetrics(prometheus.NewRegistry())}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	for _, step := range []struct {
		fails           bool
		last            ensured
		updates, errors float64
	}{
		{false, ensured{}, 1, 0},
		{true, ensured{}, 2, 1},
		{true, ensured{hosts: hosts(nodes)}, 2, 1}, // it follows them
	} {
		p.fail(step.fails)
		if err := c.update(t.Context(), balanced("s"), step.last, nodes); (err != nil) != (step.fails && step.last.hosts == "") {
			t.Error(err)
		}
		if updates, errors := testutil.ToFloat64(c.metrics.updates), testutil.ToFloat64(c.metrics.errors); updates != step.updates || errors != step.errors {
			t.Errorf("%v updates and %v errors, want %v and %v", updates, errors, step.updates, step.errors)
		}
	}
	if n := testutil.CollectAndCount(c.metrics.seconds); n != 1 {
		t.Errorf("%d series of durations", n)
	}
}
