package nodeagent_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// change updates a pod until the API takes it.
func (n *node) change(name string, change func(*corev1.Pod)) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		pod := n.get(name)
		if pod == nil {
			return "the pod is gone"
		}
		change(pod)
		if _, err := object.For(n.client, object.Pod).Update(n.t.Context(), pod); err != nil {
			return err.Error()
		}
		return ""
	})
}

// testDebug adds an ephemeral container to a pod that runs, as kubectl debug does.
func (n *node) testDebug(t *testing.T) {
	n = n.in(t)
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 7654")}}})
	n.await("patient", "ready", time.Minute, ready)
	n.change("patient", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "doctor", Image: "howdah.test/busybox:1", ImagePullPolicy: corev1.PullIfNotPresent, Stdin: true,
				Command: []string{"sh", "-c", "echo here; read line; echo heard $line; exit 3"},
			},
			TargetContainerName: "main",
		}}
	})
	runs := func(p *corev1.Pod) bool {
		s := p.Status.EphemeralContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil
	}
	n.await("patient", "being examined", time.Minute, runs)
	stream, err := n.stream("exec", "patient", "container=doctor&stdout=true&command=sh&command=-c&command=cat+/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(frame(0, "", false)); err != nil { // the caller listens
		t.Fatal(err)
	}
	if out := drain(t, stream)[1]; !strings.Contains(out, "sleep\x007654") {
		t.Errorf("it does not see its target's processes: %q", out)
	}
	attach, err := n.stream("attach", "patient", "container=doctor&stdin=true&stdout=true")
	if err != nil {
		t.Fatal(err)
	}
	if err := attach.Send(frame(0, "it hurts\n", false)); err != nil { // whose end would detach
		t.Fatal(err)
	}
	if out := drain(t, attach)[1]; !strings.Contains(out, "heard it hurts") {
		t.Errorf("attached: %q", out)
	}
	pod := n.await("patient", "examined", time.Minute, func(p *corev1.Pod) bool { return p.Status.EphemeralContainerStatuses[0].State.Terminated != nil })
	if s := pod.Status.EphemeralContainerStatuses[0]; s.State.Terminated.ExitCode != 3 || s.RestartCount != 0 || s.Ready || !ready(pod) || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("status: %s", pod.Status.String())
	}
	if log := n.log("patient", "container=doctor"); log != "here\nheard it hurts\n" {
		t.Errorf("its log: %q", log)
	}
	n.remove("patient")
}
