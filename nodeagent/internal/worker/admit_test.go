package worker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bound returns pods that ask for so much CPU each, all of which the API has bound to the node.
func (w *world) bound(cpu string, names ...string) []*corev1.Pod {
	for _, name := range names {
		p := newPod(name, "a")
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		w.others = append(w.others, p)
	}
	return w.others
}

func TestOfPodsThatComeAtOnceSomeFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	pods := w.bound("1500m", "a", "b", "c", "d")
	for _, p := range pods {
		m.Update(p)
	}
	count := func(phase corev1.PodPhase) int {
		n := 0
		for _, p := range pods {
			if w.status(p.UID).Phase == phase {
				n++
			}
		}
		return n
	}
	w.eventually("decided", func() bool { return count(corev1.PodRunning) == 2 && count(corev1.PodFailed) == 2 })
	for _, p := range pods {
		if s := w.status(p.UID); s.Phase == corev1.PodFailed &&
			(s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000") {
			t.Errorf("%s: %s", s.Reason, s.Message)
		}
	}
	if !w.told(" OutOfcpu: Node didn't have enough resource: cpu, requested: 1500, used: 3000, capacity: 4000") {
		t.Errorf("events %v", w.events)
	}
}

func TestPodIsRefusedByTheNodeAsItIsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fresh = newNode("8")
	m, _ := w.start()
	pods := w.bound("5", "fits", "late")
	m.Update(pods[0])
	w.eventually("ready", w.ready(pods[0].UID))
	m.Update(pods[1])
	w.eventually("rejected", func() bool { return w.status(pods[1].UID).Phase == corev1.PodFailed })
	if s := w.status(pods[1].UID); s.Message != "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000" {
		t.Errorf("message %q", s.Message)
	}
}

func TestPodThatHasLeftTakesNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	pods := w.bound("3", "first", "second")
	m.Update(pods[0])
	w.eventually("ready", w.ready(pods[0].UID))
	m.Update(endingPod(pods[0], 0))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	w.mu.Lock()
	w.others = pods[1:]
	w.mu.Unlock()
	m.Update(pods[1])
	w.eventually("ready", w.ready(pods[1].UID))
}
