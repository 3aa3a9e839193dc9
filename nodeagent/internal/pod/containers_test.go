package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
)

func TestEphemeralContainersRunOnce(t *testing.T) {
	t.Parallel()
	always := corev1.RestartPolicyAlways
	for name, test := range map[string]struct {
		seen         *cri.Pod
		told         string // the ID of the run that the API tells of
		plan, status string
	}{
		"new":                          {observed("ready", "a=run"), "", "start e-0", "ContainerCreating"},
		"before the others have begun": {observed("ready"), "", "start a-0, start e-0", "ContainerCreating"},
		"made and never started":       {observed("ready", "a=run", "e=made"), "", "remove e-0, start e-0", "ContainerCreating"},
		"runs":                         {observed("ready", "a=run", "e=run"), "", "", "running"},
		"ended badly":                  {observed("ready", "a=run", "e=1"), "", "", "Error"},
		"ended well":                   {observed("ready", "a=run", "e=0"), "", "", "Completed"},
		"lost with its sandbox":        {observed("ready", "a=run"), "containerd://gone", "", "ContainerStatusUnknown"},
		"the pod has ended":            {observed("dead", "a=255", "e=255"), "", "sandbox 1", "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPod(always, "a")
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}, TargetContainerName: "a"}}
			if test.told != "" {
				p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e", ContainerID: test.told, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			}
			memory := NewMemory()
			plan := Make(p, test.seen, memory, now)
			if got := describe(plan); got != test.plan {
				t.Errorf("plan %q, want %q", got, test.plan)
			}
			status := Status(p, test.seen, memory, plan, Facts{Now: now})
			if len(status.EphemeralContainerStatuses) != 1 || len(status.ContainerStatuses) != 1 {
				t.Fatalf("status: %s", status.String())
			}
			s := status.EphemeralContainerStatuses[0]
			got := ""
			switch {
			case s.State.Running != nil:
				got = "running"
			case s.State.Waiting != nil:
				got = s.State.Waiting.Reason
			case s.State.Terminated != nil:
				got = s.State.Terminated.Reason
			}
			if got != test.status || s.Ready || s.Started != nil {
				t.Errorf("status %s: %s, want %s", got, s.String(), test.status)
			}
			p.Status = status
			again := Status(p, test.seen, memory, Make(p, test.seen, memory, now), Facts{Now: now})
			if !Equal(&status, &again) {
				t.Errorf("told again it is\n%s\nand was\n%s", again.String(), status.String())
			}
		})
	}
}

func TestFindKnowsEveryKind(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "init:x", "a")
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", TTY: true}}}
	for _, name := range []string{"x", "a", "e"} {
		if c := Find(p, name); c == nil || c.Name != name || c.TTY != (name == "e") {
			t.Errorf("container %s: %v", name, c)
		}
	}
	if Find(p, "none") != nil {
		t.Error("there is no such container")
	}
}
