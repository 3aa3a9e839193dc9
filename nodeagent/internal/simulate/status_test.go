package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod of a simulated node is what its spec and its readiness gates say, from the start and after each change.
func TestStatusFollowsThePod(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	gate := func(p *corev1.Pod, status corev1.ConditionStatus) {
		set(&p.Status, corev1.PodCondition{Type: "x/gate", Status: status})
	}
	gated := func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/gate"}} }
	nothing := func(*corev1.Pod) {}
	for name, tc := range map[string]struct {
		before, after func(p *corev1.Pod)
		first, then   string
	}{
		"nothing":      {nothing, nothing, "ready i:a s:a c:a", "ready i:a s:a c:a"},
		"an image":     {nothing, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }, "ready i:a s:a c:a", "ready i:a s:a c:b/1"},
		"of a sidecar": {nothing, func(p *corev1.Pod) { p.Spec.InitContainers[1].Image = "b" }, "ready i:a s:a c:a", "ready i:a s:b/1 c:a"},
		"of one done":  {nothing, func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "b" }, "ready i:a s:a c:a", "ready i:a s:a c:a"},
		"one to debug": {nothing, func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "b"}}}
		}, "ready i:a s:a c:a", "ready i:a s:a c:a d:b"},
		"a gate that nobody opens": {gated, nothing, "ReadinessGatesNotReady i:a s:a c:a", "ReadinessGatesNotReady i:a s:a c:a"},
		"a gate opens":             {gated, func(p *corev1.Pod) { gate(p, corev1.ConditionTrue) }, "ReadinessGatesNotReady i:a s:a c:a", "ready i:a s:a c:a"},
		"a gate closes": {func(p *corev1.Pod) { gated(p); gate(p, corev1.ConditionTrue) }, func(p *corev1.Pod) { gate(p, corev1.ConditionFalse) },
			"ready i:a s:a c:a", "ReadinessGatesNotReady i:a s:a c:a"},
		"others have said that it is not ready": {nothing, func(p *corev1.Pod) {
			set(&p.Status, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Test"})
		}, "ready i:a s:a c:a", "Test i:a s:a c:a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1}, Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "i", Image: "a"}, {Name: "s", Image: "a", RestartPolicy: &always}}, Containers: []corev1.Container{{Name: "c", Image: "a"}},
			}}
			tc.before(p)
			now := time.Now()
			p.Status = running(p, "192.0.2.1", "192.0.2.2", now)
			if got := told(p); got != tc.first || unseen(p) {
				t.Errorf("at first %s, to be changed: %v, want %s", got, unseen(p), tc.first)
			}
			p.Generation++
			tc.after(p)
			p.Status = changed(p, now.Add(time.Minute))
			if got := told(p); got != tc.then || unseen(p) {
				t.Errorf("then %s, to be changed: %v, want %s", got, unseen(p), tc.then)
			}
		})
	}
}

// told is why a pod is not ready, and each container with its image and how often it started again.
func told(p *corev1.Pod) string {
	out := []string{"ready"}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			out[0] = c.Reason
		}
	}
	ids := map[string]bool{}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for _, c := range statuses {
			one := c.Name + ":" + strings.TrimPrefix(c.ImageID, "simulated://")
			if ids[c.ContainerID] {
				one += " again"
			}
			ids[c.ContainerID] = true
			if last := c.LastTerminationState.Terminated; last != nil {
				one += fmt.Sprintf("/%d", c.RestartCount)
				if last.ContainerID == c.ContainerID || !last.FinishedAt.After(last.StartedAt.Time) {
					one += " by itself"
				}
			}
			out = append(out, one)
		}
	}
	return strings.Join(out, " ")
}
