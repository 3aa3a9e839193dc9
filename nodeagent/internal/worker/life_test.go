package worker

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// All containers of a pod start over in their sandbox, also where the agent begins anew in the midst of it.
func TestAllContainersStartOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, stop := w.start()
	never, always := corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyAlways
	p := newPod("p", "a", "b")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.InitContainers = newPod("", "init", "side").Spec.Containers
	p.Spec.InitContainers[1].RestartPolicy = &always
	p.Spec.Containers[0].RestartPolicy = &never
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}
	hooked := false
	w.runtime.OnExec(func(string, []string) (string, int32) { hooked = true; return "", 0 })
	m.Update(p)
	w.eventually("the first runs", func() bool { return w.called("StartContainer init") })
	w.runtime.Exit("init", 0)
	m.Wake(p.UID)
	w.eventually("ready", w.ready(p.UID))

	before := len(w.runtime.Calls())
	w.runtime.Exit("a", 42)
	m.Wake(p.UID)
	w.eventually("the init container runs again", func() bool { return slices.Contains(w.runtime.Calls()[before:], "StartContainer init") })
	if s := w.status(p.UID); s.Phase != corev1.PodPending || s.PodIP == "" {
		t.Errorf("meanwhile it is %s at %q", s.Phase, s.PodIP)
	}
	stop() // the next life of the agent finds it so
	told := p.DeepCopy()
	told.Status = w.status(p.UID)
	m, _ = w.start()
	m.Update(told)
	w.runtime.Exit("init", 0)
	m.Wake(p.UID)
	w.eventually("ready again", w.ready(p.UID))

	calls := w.runtime.Calls()[before:]
	if want := []string{"CreateContainer init", "StartContainer init", "CreateContainer side", "StartContainer side",
		"CreateContainer a", "StartContainer a", "CreateContainer b", "StartContainer b"}; len(calls) != len(want)+2 || !slices.Equal(calls[2:], want) {
		t.Errorf("calls:\n%s", strings.Join(calls, "\n"))
	}
	if ends := calls[:2]; !slices.Contains(ends, "StopContainer b 0") || !slices.Contains(ends, "StopContainer side 0") {
		t.Errorf("what was stopped: %v", ends)
	}
	if hooked {
		t.Error("a hook was run")
	}
	s := w.status(p.UID)
	for i, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		want := []string{"Completed", "RestartingAllContainers", "Error", "RestartingAllContainers"}[i]
		if last := c.LastTerminationState.Terminated; c.RestartCount != 1 || last == nil || last.Reason != want {
			t.Errorf("%s: %d restarts, the last after %v", c.Name, c.RestartCount, last)
		}
	}
}
