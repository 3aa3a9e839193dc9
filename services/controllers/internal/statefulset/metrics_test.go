package statefulset

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	set.Spec.Replicas, set.Spec.PodManagementPolicy = ptr.To[int32](5), appsv1.ParallelPodManagement
	m.seen(set, Observed{}, time.Now())
	expect := func(most, unavailable float64) {
		t.Helper()
		if n := testutil.ToFloat64(m.most.WithLabelValues("a", "x", "Parallel")); n != most {
			t.Errorf("max unavailable %v, want %v", n, most)
		}
		if n := testutil.ToFloat64(m.unavailable.WithLabelValues("a", "x", "Parallel")); n != unavailable {
			t.Errorf("unavailable %v, want %v", n, unavailable)
		}
	}
	expect(1, 5)
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromString("50%"))}
	m.seen(set, Observed{}, time.Now())
	expect(2, 5)
	m.forget(set)
	if n := testutil.CollectAndCount(m.most) + testutil.CollectAndCount(m.unavailable); n != 0 {
		t.Errorf("%d series of a set that is gone", n)
	}
	m.seen(set, Observed{}, time.Now())
	m.began()
	if n := testutil.CollectAndCount(m.most) + testutil.CollectAndCount(m.unavailable); n != 0 {
		t.Errorf("%d series of the leadership before", n)
	}
	(*Metrics)(nil).began()
	(*Metrics)(nil).seen(set, Observed{}, time.Now())
}
