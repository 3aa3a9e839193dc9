package worker

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSidecarsEndInOrder: all hooks run at once when a pod ends; then the main container ends, and after it the sidecars, the last one first.
func TestSidecarsEndInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hooks, release := make(chan string, 3), make(chan struct{})
	w.runtime.OnExec(func(container string, _ []string) (string, int32) {
		hooks <- container
		<-release
		return "", 0
	})
	m, _ := w.start()
	p := newPod("p", "a")
	always := corev1.ContainerRestartPolicyAlways
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}
	for _, name := range []string{"s1", "s2"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: "i:1", RestartPolicy: &always, Lifecycle: hook})
	}
	p.Spec.Containers[0].Lifecycle = hook
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 30))
	for range 3 {
		<-hooks
	}
	stopped := func() (names []string) {
		for _, call := range w.runtime.Calls() {
			if rest, ok := strings.CutPrefix(call, "StopContainer "); ok {
				name, _, _ := strings.Cut(rest, " ")
				names = append(names, name)
			}
		}
		return names
	}
	if names := stopped(); len(names) > 0 {
		t.Errorf("stopped before their hooks are over: %v", names)
	}
	close(release)
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if names := stopped(); !slices.Equal(names, []string{"a", "s2", "s1"}) {
		t.Errorf("stopped in the order %v", names)
	}
}

// TestTimeOfTheOthersIsOfTheGrace: who waits for others until the pod's grace is over has little left; a hook that does not end goes on until its
// container does.
func TestTimeOfTheOthersIsOfTheGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	defer close(release)
	w.runtime.OnExec(func(string, []string) (string, int32) {
		<-release
		return "", 0
	})
	m, _ := w.start()
	p := newPod("p", "a")
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "i:1", RestartPolicy: &always}}
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 1))
	w.eventually("both stopped", func() bool {
		calls := w.runtime.Calls()
		return slices.Contains(calls, "StopContainer a 2") && slices.Contains(calls, "StopContainer s 2")
	})
}
