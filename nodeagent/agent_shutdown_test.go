package nodeagent_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent"
)

// The machine is told to go down: pods end in their own time, those that the system needs after the others, none begins, and the agent's next life
// brings only those back that are the node's own.
func TestRealNodeGoesDown(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNodeWith(t, func(cfg *nodeagent.Config) {
		cfg.Shutdown = nodeagent.Shutdown{Grace: 2 * time.Minute, Critical: time.Minute}
	})
	starts := n.manifest("own", "start", "")
	grace, system := int64(60), int32(2_000_000_000)
	polite := shell("trap 'sleep 3; exit 0' TERM; while true; do sleep 0.1; done")
	for name, priority := range map[string]*int32{"web": nil, "dns": &system} {
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{polite}, TerminationGracePeriodSeconds: &grace, Priority: priority,
		}})
	}
	for _, name := range []string{"web", "dns", "own-" + nodeName} {
		n.await(name, "ready", time.Minute, ready)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGPWR); err != nil {
		t.Fatal(err)
	}
	n.hasEvent(nodeName, "NodeShutdown: Shutdown manager detected shutdown event")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	if err := n.wait(); !errors.Is(err, nodeagent.ErrShutDown) {
		t.Fatalf("the agent ended with %v", err)
	}

	web, dns, late := n.get("web"), n.get("dns"), n.get("late")
	for _, p := range []*corev1.Pod{web, dns} {
		if s := p.Status; s.Phase != corev1.PodFailed || s.Reason != "Terminated" || s.Message != "Pod was terminated in response to imminent node shutdown." {
			t.Errorf("%s: phase %s, reason %q, message %q", p.Name, s.Phase, s.Reason, s.Message)
		}
		if c := disruption(p); c == nil || c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet {
			t.Errorf("%s: the condition is %v", p.Name, c)
		}
		if end := terminated(p); end == nil || end.ExitCode != 0 {
			t.Fatalf("%s ended with %+v, not by itself", p.Name, end)
		}
	}
	if !terminated(web).FinishedAt.Before(&terminated(dns).FinishedAt) {
		t.Errorf("web ended at %v, dns at %v", terminated(web).FinishedAt, terminated(dns).FinishedAt)
	}
	if s := late.Status; s.Reason != "NodeShutdown" || s.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
		t.Errorf("late: %s", s.String())
	}
	node, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && (c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "node is shutting down") {
			t.Errorf("the node says %s: %s: %s", c.Status, c.Reason, c.Message)
		}
	}

	n.stop()
	n.startAgent()
	eventually(t, 2*time.Minute, func() string {
		if got := started(starts); got != "start start" {
			return "the node's own pod has written: " + got
		}
		return ""
	})
	n.await("own-"+nodeName, "ready", time.Minute, ready)
	if n.runs("web") || n.runs("dns") {
		t.Error("pods that have ended run again")
	}
}

func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func terminated(p *corev1.Pod) *corev1.ContainerStateTerminated {
	if len(p.Status.ContainerStatuses) == 0 {
		return nil
	}
	return p.Status.ContainerStatuses[0].State.Terminated
}
