package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/cri"
)

func summary(s corev1.PodStatus) string {
	out := []string{string(s.Phase)}
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type != corev1.PodScheduled {
			out = append(out, string(c.Type))
		}
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			word := c.Name + ":"
			switch {
			case c.State.Running != nil:
				word += "running"
			case c.State.Terminated != nil:
				word += c.State.Terminated.Reason
			case c.State.Waiting != nil:
				word += c.State.Waiting.Reason
			}
			if c.LastTerminationState.Terminated != nil {
				word += "(" + c.LastTerminationState.Terminated.Reason + ")"
			}
			if c.Ready {
				word += "+"
			}
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

// anew is a pod in its second sandbox, as after its machine has been started anew; the first of runs is there, the others were in the other one.
func anew(runs ...string) *cri.Pod {
	o := observed("dead", runs...)
	o.Sandboxes = append([]cri.Sandbox{{ID: "s2", Ready: true, IPs: []string{"10.0.0.3"}, Attempt: 1}}, o.Sandboxes...)
	o.Containers[0].SandboxID = "s2"
	return o
}

func TestStatus(t *testing.T) {
	t.Parallel()
	always, never := corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		seen   *cri.Pod
		change func(p *corev1.Pod, m *Memory)
		want   string
	}{
		"new":               {testPod(always, "a"), observed(""), nil, "Pending Initialized a:ContainerCreating"},
		"new with init":     {testPod(always, "init:x", "a"), observed(""), nil, "Pending x:PodInitializing a:PodInitializing"},
		"init runs":         {testPod(always, "init:x", "a"), observed("ready", "x=run"), nil, "Pending PodReadyToStartContainers x:running a:PodInitializing"},
		"init failed":       {testPod(never, "init:x", "a"), observed("ready", "x=3"), nil, "Failed PodReadyToStartContainers x:Error a:PodInitializing"},
		"sandbox":           {testPod(always, "a"), observed("ready"), nil, "Pending PodReadyToStartContainers Initialized a:ContainerCreating"},
		"runs":              {testPod(always, "a"), observed("ready", "a=run"), nil, "Running PodReadyToStartContainers Initialized Ready ContainersReady a:running+"},
		"one runs":          {testPod(always, "a", "b"), observed("ready", "a=run"), nil, "Pending PodReadyToStartContainers Initialized a:running+ b:ContainerCreating"},
		"runs after init":   {testPod(always, "init:x", "a"), observed("ready", "a=run", "x=0"), nil, "Running PodReadyToStartContainers Initialized Ready ContainersReady x:Completed+ a:running+"},
		"sidecar runs":      {testPod(always, "side:s", "a"), observed("ready", "a=run", "s=run"), nil, "Running PodReadyToStartContainers Initialized Ready ContainersReady s:running+ a:running+"},
		"ended":             {testPod(always, "a"), observed("ready", "a=1"), nil, "Running PodReadyToStartContainers Initialized a:Error"},
		"restarted":         {testPod(always, "a"), observed("ready", "a=run", "a=1"), nil, "Running PodReadyToStartContainers Initialized Ready ContainersReady a:running(Error)+"},
		"succeeded":         {testPod(never, "a"), observed("ready", "a=0"), nil, "Succeeded PodReadyToStartContainers Initialized a:Completed"},
		"succeeded, failed": {testPod(never, "a", "b"), observed("dead", "a=0", "b=1"), nil, "Failed Initialized a:Completed b:Error"},
		"backs off": {testPod(always, "a"), observed("ready", "a=1"), func(_ *corev1.Pod, m *Memory) { m.Backoff["a"] = Backoff{BackoffMax, now} },
			"Running PodReadyToStartContainers Initialized a:CrashLoopBackOff(Error)"},
		"no image": {testPod(always, "a"), observed("ready"), func(_ *corev1.Pod, m *Memory) { m.Trouble["a"] = Trouble{Reason: "ErrImagePull"} },
			"Pending PodReadyToStartContainers Initialized a:ErrImagePull"},
		"not ready": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} },
			"Running PodReadyToStartContainers Initialized a:running"},
		"ready by its probe": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, m *Memory) {
			p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
			m.Probes["a-0"] = Probed{Ready: true}
		}, "Running PodReadyToStartContainers Initialized Ready ContainersReady a:running+"},
		"not started": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) { p.Spec.Containers[0].StartupProbe = &corev1.Probe{} },
			"Running PodReadyToStartContainers Initialized a:running"},
		"gate closed": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/gate"}}
		}, "Running PodReadyToStartContainers Initialized ContainersReady a:running+"},
		"gate open": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/gate"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: "x/gate", Status: corev1.ConditionTrue}}
		}, "Running x/gate PodReadyToStartContainers Initialized Ready ContainersReady a:running+"},
		"deleted and ended": {testPod(always, "a"), observed("dead", "a=143"), func(p *corev1.Pod, _ *Memory) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "Failed Initialized a:Error"},
		"deleted and ended well": {testPod(always, "a"), observed("dead", "a=0"), func(p *corev1.Pod, _ *Memory) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "Succeeded Initialized a:Completed"},
		"deleted before it ran": {testPod(always, "init:x", "a"), observed("dead"), func(p *corev1.Pod, _ *Memory) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "Failed x:ContainerStatusUnknown a:PodInitializing"},
		"an init container is gone": {testPod(always, "init:x", "a"), observed("ready", "a=run"), nil, "Running PodReadyToStartContainers Initialized Ready ContainersReady x:Completed+ a:running+"},
		"its traces are gone": {testPod(always, "a"), observed(""), func(p *corev1.Pod, _ *Memory) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: "containerd://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, "Running Initialized a:ContainerCreating(ContainerStatusUnknown)"},
		"begins anew": {testPod(always, "init:x", "a"), anew("x=run", "x=0", "a=137"), nil, "Pending PodReadyToStartContainers Initialized x:running(Completed) a:Error"},
		"begins anew with a sidecar": {testPod(always, "side:s", "a"), anew("s=run", "s=0", "a=137"), func(p *corev1.Pod, _ *Memory) { p.Spec.InitContainers[0].StartupProbe = &corev1.Probe{} },
			"Pending PodReadyToStartContainers Initialized s:running(Completed) a:Error"},
		"a final phase stays": {testPod(never, "a"), observed(""), func(p *corev1.Pod, _ *Memory) { p.Status.Phase = corev1.PodFailed }, "Failed Initialized a:ContainerStatusUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := NewMemory()
			if test.change != nil {
				test.change(test.pod, memory)
			}
			facts := Facts{HostIPs: []string{"192.0.2.1"}, Now: now}
			status := Status(test.pod, test.seen, memory, Make(test.pod, test.seen, memory, now), facts)
			if got := summary(status); got != test.want {
				t.Errorf("status:\n%s, want\n%s", got, test.want)
			}
			test.pod.Status = status
			again := Status(test.pod, test.seen, memory, Make(test.pod, test.seen, memory, now), facts)
			if !Equal(&status, &again) {
				t.Errorf("a status that is told says something else:\n%s\nthan before:\n%s", again.String(), status.String())
			}
		})
	}
}

func TestStatusNamesWhatIsNotReady(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "init:x", "a", "b")
	seen := observed("ready")
	m := NewMemory()
	s := Status(p, seen, m, Make(p, seen, m, now), Facts{HostIPs: []string{"192.0.2.1"}, Now: now})
	for kind, want := range map[corev1.PodConditionType]string{
		corev1.PodInitialized:  "ContainersNotInitialized: containers with incomplete status: [x]",
		corev1.PodReady:        "ContainersNotReady: containers with unready status: [a b]",
		corev1.ContainersReady: "ContainersNotReady: containers with unready status: [a b]",
	} {
		c := condition(&s, kind)
		if got := c.Reason + ": " + c.Message; got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	if s.PodIP != "10.0.0.2" || s.HostIP != "192.0.2.1" || s.StartTime == nil {
		t.Errorf("addresses %q and %q, start %v", s.PodIP, s.HostIP, s.StartTime)
	}
}

func TestPodScheduledSaysWhichPodTheNodeHasSeen(t *testing.T) {
	t.Parallel()
	bound := metav1.NewTime(time.Unix(100, 0))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	s := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound}}}
	conditions(&s, p, &cri.Pod{}, time.Unix(200, 0))
	c := condition(&s, corev1.PodScheduled)
	if c.ObservedGeneration != 3 || c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&bound) {
		t.Errorf("%+v", c)
	}
}

// What is known of some devices of a container does not hide what was told of others.
func TestHealthOfDevicesIsKeptByName(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "a")
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "example.com/tap"}, {Name: "claim:x"}}}}
	one := []corev1.ResourceHealth{{ResourceID: "now", Health: corev1.ResourceHealthStatusHealthy}}
	got := health(p, "a", Facts{Health: func(string) []corev1.ResourceStatus {
		return []corev1.ResourceStatus{{Name: "claim:x", Resources: one}}
	}})
	if len(got) != 2 || got[0].Name != "claim:x" || len(got[0].Resources) != 1 || got[1].Name != "example.com/tap" {
		t.Errorf("%v", got)
	}
}

func TestStatusOfARejectedPodSaysWhyAndNoMore(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "a")
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: "x/gate", Status: corev1.ConditionTrue}}
	m := NewMemory()
	m.Failed = &Failure{Reason: "OutOfcpu", Message: "no room", Rejected: true}
	seen := observed("")
	s := Status(p, seen, m, Make(p, seen, m, now), Facts{HostIPs: []string{"192.0.2.1"}, Now: now})
	want := corev1.PodStatus{
		ObservedGeneration: p.Generation, QOSClass: corev1.PodQOSBestEffort, StartTime: s.StartTime,
		Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no room",
		Conditions: []corev1.PodCondition{{Type: "x/gate", Status: corev1.ConditionTrue}},
	}
	if s.StartTime == nil || !Equal(&s, &want) {
		t.Errorf("%s, want\n%s", s.String(), want.String())
	}
}

// What a container got, and as whom it runs, is told of one that was made.
func TestStatusTellsOfWhatWasMade(t *testing.T) {
	t.Parallel()
	p := testPod(corev1.RestartPolicyAlways, "z", "a")
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
	seen := observed("ready", "a=run")
	user := &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 7, GID: 8, SupplementalGroups: []int64{8, 9}}}
	seen.Containers[0].User, seen.Containers[0].StopSignal = user, corev1.SIGTERM
	m := NewMemory()
	s := Status(p, seen, m, Make(p, seen, m, now), Facts{Now: now})
	a, z := s.ContainerStatuses[0], s.ContainerStatuses[1]
	if a.Name != "a" || a.User != user || a.Resources == nil || a.AllocatedResources == nil || a.StopSignal != nil {
		t.Errorf("made: %s", a.String())
	}
	for i := range p.Spec.Containers { // the signal is told of those that choose one
		p.Spec.Containers[i].Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGTERM)}
	}
	if again := Status(p, seen, m, Make(p, seen, m, now), Facts{Now: now}).ContainerStatuses; again[0].StopSignal == nil || *again[0].StopSignal != corev1.SIGTERM || again[1].StopSignal != nil {
		t.Errorf("of signals: %s and %s", again[0].String(), again[1].String())
	}
	if z.Name != "z" || z.User != nil || z.Resources != nil || z.AllocatedResources != nil {
		t.Errorf("not made yet: %s", z.String())
	}
}

func TestWhatCouldNotBeStartedBeganWithTheEpoch(t *testing.T) {
	t.Parallel()
	if s := terminated(&cri.Container{State: cri.Exited, ExitCode: 128, Reason: "StartError"}).Terminated; !s.StartedAt.Time.Equal(time.Unix(0, 0)) {
		t.Errorf("started at %v", s.StartedAt)
	}
}
