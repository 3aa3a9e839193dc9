package nodeagent

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/probe"
)

func TestProbesAreMeasuredWhileTheirPodIsThere(t *testing.T) {
	t.Parallel()
	m := newProbeMetrics()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	target := probe.Target{Pod: p, Container: &corev1.Container{Name: "c"}}
	m.probed(target, probe.Liveness, "successful", time.Second)
	m.probed(target, probe.Readiness, "unknown", time.Second)
	m.probed(target, probe.Startup, "failed", time.Second)
	if results, times := testutil.CollectAndCount(m.results), testutil.CollectAndCount(m.seconds); results != 3 || times != 2 {
		t.Errorf("%d results, and times of %d kinds; a probe that fails has none", results, times)
	}
	m.forget(p)
	if results, times := testutil.CollectAndCount(m.results), testutil.CollectAndCount(m.seconds); results != 0 || times != 0 {
		t.Errorf("%d results and %d times are left of a pod that is gone", results, times)
	}
}
