package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/cri"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPod(policy corev1.RestartPolicy, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{RestartPolicy: policy}}
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range containers {
		kind, rest, ok := strings.Cut(name, ":")
		c := corev1.Container{Name: rest, Image: "i"}
		switch {
		case !ok:
			c.Name = name
			p.Spec.Containers = append(p.Spec.Containers, c)
		case kind == "side":
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}

// observed builds what the runtime holds from "name=state" words, newest
// first: run, made, lost, or an exit code, ended ten seconds ago.
func observed(sandbox string, runs ...string) *cri.Pod {
	o := &cri.Pod{UID: "u"}
	if sandbox != "" {
		o.Sandboxes = []cri.Sandbox{{ID: "s1", Ready: sandbox == "ready", IPs: []string{"10.0.0.2"}, Attempt: 0}}
	}
	counts := map[string]int32{}
	for _, word := range runs {
		name, _, _ := strings.Cut(word, "=")
		counts[name]++
	}
	for _, word := range runs {
		name, state, _ := strings.Cut(word, "=")
		counts[name]--
		c := cri.Container{
			ID: fmt.Sprintf("%s-%d", name, counts[name]), Name: name, SandboxID: "s1", Attempt: counts[name], Created: now.Add(-time.Minute),
			Started: now.Add(-time.Minute), Finished: now.Add(-10 * time.Second), Hash: cri.Hash(&corev1.Container{Name: name, Image: "i"}),
		}
		switch state {
		case "run":
			c.State, c.Finished = cri.Running, time.Time{}
		case "made":
			c.State = cri.Created
		case "lost":
			c.State = cri.Unknown
		default:
			c.State = cri.Exited
			if _, err := fmt.Sscan(state, &c.ExitCode); err != nil {
				panic(err)
			}
		}
		o.Containers = append(o.Containers, c)
	}
	return o
}

func describe(p Plan) string {
	var out []string
	if t := p.Terminate; t != nil {
		word := "terminate"
		if t.Delete {
			word += " and delete"
		}
		if t.Failure != nil {
			word += ": " + t.Failure.Reason
		}
		out = append(out, word)
	}
	for _, s := range p.Stop {
		out = append(out, "stop "+s.Run.ID)
	}
	for _, id := range p.Remove {
		out = append(out, "remove "+id)
	}
	if p.NewSandbox {
		out = append(out, fmt.Sprintf("sandbox %d", p.Attempt))
	}
	for _, s := range p.Start {
		out = append(out, fmt.Sprintf("start %s-%d", s.Container.Name, s.Attempt))
	}
	var waiting []string
	for name, w := range p.Waiting {
		waiting = append(waiting, name+" "+w.Reason)
	}
	slices.Sort(waiting)
	return strings.Join(append(out, waiting...), ", ")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	always, never, onFailure := corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		seen   *cri.Pod
		change func(p *corev1.Pod, m *Memory)
		want   string
	}{
		"nothing yet":                      {testPod(always, "a"), observed(""), nil, "sandbox 0"},
		"a sandbox":                        {testPod(always, "a", "b"), observed("ready"), nil, "start a-0, start b-0"},
		"one of two":                       {testPod(always, "a", "b"), observed("ready", "a=run"), nil, "start b-0"},
		"all run":                          {testPod(always, "a", "b"), observed("ready", "a=run", "b=run"), nil, ""},
		"made and never started":           {testPod(always, "a"), observed("ready", "a=made"), nil, "remove a-0, start a-0"},
		"ended the first time":             {testPod(always, "a"), observed("ready", "a=1"), nil, "start a-1"},
		"ended well, to run on":            {testPod(always, "a"), observed("ready", "a=0"), nil, "start a-1"},
		"old runs go":                      {testPod(always, "a"), observed("ready", "a=run", "a=1", "a=1"), nil, "remove a-0"},
		"the sandbox died":                 {testPod(always, "a"), observed("dead", "a=255"), nil, "sandbox 1"},
		"the sandbox died before its runs": {testPod(always, "a"), observed("dead", "a=run"), nil, "stop a-0, sandbox 1"},
		"never again":                      {testPod(never, "a"), observed("ready", "a=1"), nil, "terminate"},
		"never, with one still running":    {testPod(never, "a", "b"), observed("ready", "a=1", "b=run"), nil, ""},
		"done":                             {testPod(onFailure, "a"), observed("ready", "a=0"), nil, "terminate"},
		"failed, to try again":             {testPod(onFailure, "a"), observed("ready", "a=2"), nil, "start a-1"},
		"done in a dead sandbox":           {testPod(onFailure, "a"), observed("dead", "a=0"), nil, "terminate"},
		"first init":                       {testPod(always, "init:x", "init:y", "a"), observed("ready"), nil, "start x-0"},
		"init runs":                        {testPod(always, "init:x", "init:y", "a"), observed("ready", "x=run"), nil, ""},
		"second init":                      {testPod(always, "init:x", "init:y", "a"), observed("ready", "x=0"), nil, "start y-0"},
		"init done":                        {testPod(always, "init:x", "a"), observed("ready", "x=0"), nil, "start a-0"},
		"init failed":                      {testPod(always, "init:x", "a"), observed("ready", "x=1"), nil, "start x-1"},
		"init failed for good":             {testPod(never, "init:x", "a"), observed("ready", "x=1"), nil, "terminate"},
		"init forgotten":                   {testPod(always, "init:x", "a"), observed("ready", "a=run"), nil, ""},
		"sidecar first":                    {testPod(always, "side:s", "init:x", "a"), observed("ready"), nil, "start s-0"},
		"sidecar runs":                     {testPod(always, "side:s", "init:x", "a"), observed("ready", "s=run"), nil, "start x-0"},
		"sidecar died":                     {testPod(always, "side:s", "a"), observed("ready", "a=run", "s=0"), nil, "start s-1"},
		"sidecar outlives the job":         {testPod(never, "side:s", "a"), observed("ready", "s=run", "a=0"), nil, "terminate"},
		"sidecar not started yet": {testPod(always, "side:s", "a"), observed("ready", "s=run"), func(p *corev1.Pod, _ *Memory) {
			p.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
		}, ""},
		"sidecar started": {testPod(always, "side:s", "a"), observed("ready", "s=run"), func(p *corev1.Pod, m *Memory) {
			p.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
			m.Probes["s-0"] = Probed{Started: true}
		}, "start a-0"},
		"backs off": {testPod(always, "a"), observed("ready", "a=1"), func(_ *corev1.Pod, m *Memory) {
			m.Backoff["a"] = Backoff{20 * time.Second, now.Add(-time.Minute)}
		}, "a CrashLoopBackOff"},
		"has backed off": {testPod(always, "a"), observed("ready", "a=1"), func(_ *corev1.Pod, m *Memory) {
			m.Backoff["a"] = Backoff{10 * time.Second, now.Add(-time.Minute)}
		}, "start a-1"},
		"another image needs no patience": {testPod(always, "a"), observed("ready", "a=1"), func(p *corev1.Pod, m *Memory) {
			m.Backoff["a"] = Backoff{time.Minute, now.Add(-time.Minute)}
			p.Spec.Containers[0].Image = "other"
		}, "start a-1"},
		"image backs off": {testPod(always, "a", "b"), observed("ready"), func(_ *corev1.Pod, m *Memory) {
			m.Trouble["a"] = Trouble{Reason: "ImagePullBackOff", Until: now.Add(time.Second)}
		}, "start b-0"},
		"another image": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) { p.Spec.Containers[0].Image = "other" }, "stop a-0"},
		"not alive":     {testPod(always, "a"), observed("ready", "a=run"), func(_ *corev1.Pod, m *Memory) { m.Probes["a-0"] = Probed{Kill: "liveness probe"} }, "stop a-0"},
		"deleted": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "terminate and delete"},
		"deleted before it began": {testPod(always, "a"), observed(""), func(p *corev1.Pod, _ *Memory) {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "terminate and delete"},
		"failed by somebody": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) { p.Status.Phase = corev1.PodFailed }, "terminate"},
		"too late": {testPod(always, "a"), observed("ready", "a=run"), func(p *corev1.Pod, _ *Memory) {
			seconds := int64(60)
			p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = &seconds, &metav1.Time{Time: now.Add(-time.Minute)}
		}, "terminate: DeadlineExceeded"},
		"the API knows more runs": {testPod(always, "a"), observed("ready"), func(p *corev1.Pod, _ *Memory) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", RestartCount: 4, ContainerID: "containerd://gone"}}
		}, "start a-5"},
		"volumes are waited for": {testPod(always, "a"), observed(""), func(_ *corev1.Pod, m *Memory) { m.Volumes.Until = now.Add(time.Second) }, ""},
		"an exit code with a rule": {testPod(never, "a"), observed("ready", "a=42"), func(p *corev1.Pod, _ *Memory) {
			policy := corev1.ContainerRestartPolicyNever
			p.Spec.Containers[0].RestartPolicy = &policy
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
		}, "start a-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := NewMemory()
			if test.change != nil {
				test.change(test.pod, memory)
			}
			if got := describe(Make(test.pod, test.seen, memory, now)); got != test.want {
				t.Errorf("plan: %q, want %q", got, test.want)
			}
		})
	}
}

func TestPlanWakesWhenItsReasonsEnd(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.Backoff["a"] = Backoff{20 * time.Second, now.Add(-time.Minute)}
	plan := Make(testPod(corev1.RestartPolicyAlways, "a"), observed("ready", "a=1"), m, now)
	if want := now.Add(10 * time.Second); !plan.Wake.Equal(want) {
		t.Errorf("wake at %v, want %v", plan.Wake, want)
	}
	if want := "back-off 20s restarting failed container=a pod=p_ns(u)"; plan.Waiting["a"].Message != want {
		t.Errorf("message %q, want %q", plan.Waiting["a"].Message, want)
	}
}

func TestBackoffDoublesAndForgets(t *testing.T) {
	t.Parallel()
	for most, delays := range map[time.Duration][]time.Duration{
		0: {10, 20, 40, 80, 160, 300, 300}, 300 * time.Second: {10, 20, 40, 80, 160, 300, 300}, 60 * time.Second: {10, 20, 40, 60, 60}, 10 * time.Second: {10, 10}, 2 * time.Second: {2, 2, 2},
	} {
		var b Backoff
		at := now
		for _, want := range delays {
			b = b.Next(at, at, most)
			if b.Delay != want*time.Second {
				t.Fatalf("at most %v: delay %v, want %v", most, b.Delay, want*time.Second)
			}
			if until := b.Until(at, at); !until.Equal(at.Add(b.Delay)) {
				t.Fatalf("at most %v: until %v", most, until)
			}
			at = at.Add(b.Delay)
		}
		updated := b.Updated
		if soon := updated.Add(9 * time.Minute); b.Until(soon, soon).IsZero() {
			t.Errorf("at most %v: nine minutes of peace are forgiven", most)
		}
		if later := updated.Add(11 * time.Minute); !b.Until(later, later).IsZero() || b.Next(later, later, most).Delay != delays[0]*time.Second {
			t.Errorf("at most %v: ten minutes of peace are not forgiven", most)
		}
	}
}

func TestWhatIsSaidOfAProbesKill(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		runs []string
		want string
	}{
		"restarted":      {testPod(corev1.RestartPolicyAlways, "a", "b"), []string{"a=run", "b=run"}, "Container a failed liveness probe, will be restarted"},
		"not restarted":  {testPod(corev1.RestartPolicyNever, "a", "b"), []string{"a=run", "b=run"}, "Container a failed liveness probe"},
		"the pod's last": {testPod(corev1.RestartPolicyNever, "a", "b"), []string{"a=run", "b=0"}, "Stopping container a"},
		"on its failure": {testPod(corev1.RestartPolicyOnFailure, "a"), []string{"a=run"}, "Container a failed liveness probe, will be restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMemory()
			m.Probes["a-0"] = Probed{Kill: "liveness probe"}
			plan := Make(test.pod, observed("ready", test.runs...), m, now)
			if len(plan.Stop) != 1 || plan.Stop[0].Message != test.want {
				t.Errorf("%+v, want %q", plan.Stop, test.want)
			}
		})
	}
}

// Whatever the state, a plan never starts what runs, never starts in a
// sandbox that is not there, and never starts main containers before init.
func TestPlanNeverDoesHarm(t *testing.T) {
	t.Parallel()
	states := []string{"", "run", "made", "lost", "0", "1"}
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		for _, sandbox := range []string{"", "dead", "ready"} {
			for _, x := range states {
				for _, s := range states {
					for _, a := range states {
						var runs []string
						for name, state := range map[string]string{"x": x, "s": s, "a": a} {
							if state != "" {
								runs = append(runs, name+"="+state)
							}
						}
						seen := observed(sandbox, runs...)
						plan := Make(testPod(policy, "init:x", "side:s", "a"), seen, NewMemory(), now)
						about := fmt.Sprintf("policy %s, sandbox %q, x=%s s=%s a=%s: %s", policy, sandbox, x, s, a, describe(plan))
						for _, start := range plan.Start {
							if sandbox != "ready" {
								t.Errorf("starts without a sandbox: %s", about)
							}
							if run := seen.Latest(start.Container.Name); run != nil && run.State == cri.Running {
								t.Errorf("starts what runs: %s", about)
							}
							if start.Container.Name == "a" && a == "" && (x != "0" || s != "run") {
								t.Errorf("starts before init: %s", about)
							}
						}
						if plan.Terminate != nil && policy == corev1.RestartPolicyAlways {
							t.Errorf("ends what is to run for ever: %s", about)
						}
					}
				}
			}
		}
	}
}
