package podgc

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	pod := func(name, node string, phase corev1.PodPhase, age time.Duration, deleted bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))}, Spec: corev1.PodSpec{NodeName: node}}
		p.Status.Phase = phase
		if deleted {
			p.DeletionTimestamp = &metav1.Time{Time: start}
		}
		return p
	}
	evicted := pod("evicted", "alive", corev1.PodFailed, time.Minute, false)
	evicted.Status.Reason = "Evicted"
	pods := []*corev1.Pod{
		pod("fine", "alive", corev1.PodRunning, time.Hour, false),
		pod("ending", "alive", corev1.PodRunning, time.Hour, true),
		pod("orphan", "gone", corev1.PodRunning, time.Hour, false),
		pod("ended-orphan", "gone", corev1.PodSucceeded, time.Hour, false),
		pod("never-placed", "", corev1.PodPending, time.Hour, true),
		pod("pending", "", corev1.PodPending, time.Hour, false),
		pod("stuck", "lost", corev1.PodRunning, time.Hour, true),
		pod("waiting", "lost", corev1.PodRunning, time.Hour, false),
		pod("old", "alive", corev1.PodSucceeded, 3*time.Hour, false),
		pod("older", "alive", corev1.PodFailed, 4*time.Hour, false),
		pod("new", "alive", corev1.PodSucceeded, time.Hour, false),
		evicted,
	}
	nodes := map[string]Node{"alive": {Exists: true}, "lost": {Exists: true, Lost: true}}
	got := map[string]Removal{}
	for _, r := range Decide(pods, func(n string) Node { return nodes[n] }, 2) {
		got[r.Pod.Name] = r
	}
	want := map[string]string{
		"orphan": orphaned, "ended-orphan": orphaned, "never-placed": unscheduled, "stuck": outOfService, "evicted": terminated, "older": terminated,
	}
	if len(got) != len(want) {
		t.Errorf("removes %v, want %v", got, want)
	}
	for name, cause := range want {
		if r := got[name]; r.Cause != cause {
			t.Errorf("%s goes for %q, want %q", name, r.Cause, cause)
		}
	}
	if got["orphan"].Reason != "DeletionByPodGC" || got["orphan"].Message != "PodGC: node no longer exists" {
		t.Errorf("orphan: %+v", got["orphan"])
	}
	if got["ended-orphan"].Reason != "" {
		t.Errorf("ended orphan: %+v", got["ended-orphan"])
	}
}
