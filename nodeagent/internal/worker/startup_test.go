package worker

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestStartsOfPodsAreMeasuredOnce(t *testing.T) {
	t.Parallel()
	born := time.Unix(1000, 0)
	at := func(seconds int) metav1.Time { return metav1.NewTime(born.Add(time.Duration(seconds) * time.Second)) }
	running := func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		started := at(0)
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &started
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(1), FinishedAt: at(3)}}}}
		return p
	}
	plain := newPod("p", "a")
	plain.CreationTimestamp = metav1.NewTime(born)
	claims := plain.DeepCopy()
	claims.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	leaving := running(plain)
	leaving.DeletionTimestamp = &metav1.Time{Time: born}
	for name, c := range map[string]struct {
		seen       []*corev1.Pod
		total, sli float64 // seconds; 0 is not measured
	}{
		"a pod":                      {seen: []*corev1.Pod{plain, plain, running(plain), running(plain)}, total: 10, sli: 10 - 4 - 2},
		"one with lasting volumes":   {seen: []*corev1.Pod{claims, running(claims)}, total: 10},
		"one that ran before":        {seen: []*corev1.Pod{running(plain), running(plain)}},
		"one that does not run yet":  {seen: []*corev1.Pod{plain, plain}},
		"one that is deleted before": {seen: []*corev1.Pod{plain, leaving, running(plain)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			m := NewMetrics(registry, clocktesting.NewFakePassiveClock(born.Add(10*time.Second)))
			for _, p := range c.seen {
				m.seen(p)
				m.pulled(p.UID, 4*time.Second/time.Duration(max(len(c.seen)-2, 1)))
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				want, ok := map[string]float64{"kubelet_pod_start_total_duration_seconds": c.total, "kubelet_pod_start_sli_duration_seconds": c.sli}[f.GetName()]
				if !ok {
					continue
				}
				h, count := f.GetMetric()[0].GetHistogram(), uint64(0)
				if want > 0 {
					count = 1
				}
				if h.GetSampleSum() != want || h.GetSampleCount() != count {
					t.Errorf("%s is %v s of %d starts, not %v s", f.GetName(), h.GetSampleSum(), h.GetSampleCount(), want)
				}
			}
			if m.forget("uid-p"); len(m.pulling) != 0 {
				t.Error("a pod that is gone is remembered")
			}
		})
	}
}
