package pod

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// answering gives a container a rule by which its end with 42 restarts all.
func answering(p *corev1.Pod, name string) *corev1.Pod {
	c := Find(p, name)
	if c.RestartPolicy == nil {
		never := corev1.ContainerRestartPolicyNever
		c.RestartPolicy = &never
	}
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	return p
}

// lived is like observed, of runs with their life: "name@1=state".
func lived(runs ...string) *cri.Pod {
	var plain []string
	for _, run := range runs {
		name, state, _ := strings.Cut(run, "=")
		name, _, _ = strings.Cut(name, "@")
		plain = append(plain, name+"="+state)
	}
	o := observed("ready", plain...)
	for i, run := range runs {
		if _, number, ok := strings.Cut(strings.Split(run, "=")[0], "@"); ok {
			if _, err := fmt.Sscan(number, &o.Containers[i].Life); err != nil {
				panic(err)
			}
		}
	}
	return o
}

func TestAllContainersStartOver(t *testing.T) {
	t.Parallel()
	never := corev1.RestartPolicyNever
	three := func(cause string) *corev1.Pod { return answering(testPod(never, "init:x", "side:s", "a", "b"), cause) }
	begun := func(m *Memory) { m.Life = 1 }
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		seen   *cri.Pod
		memory func(*Memory)
		plan   string
		status string
	}{
		"another end": {three("a"), lived("a=1", "b=run", "s=run", "x=0"), nil, "", "Running x:Completed s:running a:Error b:running"},
		"one of the main containers": {three("a"), lived("a=42", "b=run", "s=run", "x=0"), nil, "restarting, stop b-0, stop s-0",
			"Running Restarting x:Completed s:running a:Error b:running"},
		"it is told though nothing runs":     {three("a"), lived("a=42", "b=0", "s=0", "x=0"), nil, "restarting", "Running Restarting x:Completed s:Completed a:Error b:Completed"},
		"the agent forgot, and nothing runs": {answering(testPod(never, "a"), "a"), lived("a=42"), nil, "restarting", "Running Restarting a:Error"},
		"all have ended": {three("a"), lived("a=42", "b=137", "s=137", "x=0"), begun, "start x-1 in life 1",
			"Running x:RestartingAllContainers(Completed) s:RestartingAllContainers(RestartingAllContainers) a:RestartingAllContainers(Error) b:RestartingAllContainers(RestartingAllContainers)"},
		"the first is back": {three("a"), lived("x@1=run", "a=42", "b=137", "s=137", "x=0"), begun, "",
			"Pending x:running(Completed) s:RestartingAllContainers(RestartingAllContainers) a:RestartingAllContainers(Error) b:RestartingAllContainers(RestartingAllContainers)"},
		"the init containers are done": {three("a"), lived("x@1=0", "s@1=run", "a=42", "b=137", "s=137", "x=0"), begun, "start a-1 in life 1, start b-1 in life 1",
			"Running x:Completed(Completed) s:running(RestartingAllContainers) a:RestartingAllContainers(Error) b:RestartingAllContainers(RestartingAllContainers)"},
		"all are back": {three("a"), lived("a@1=run", "b@1=run", "x@1=0", "s@1=run", "a=42", "b=137", "s=137", "x=0"), begun, "",
			"Running x:Completed(Completed) s:running(RestartingAllContainers) a:running(Error) b:running(RestartingAllContainers)"},
		"an agent that has just begun sees the same": {three("a"), lived("x@1=run", "a=42", "b=137", "s=137", "x=0"), nil, "",
			"Pending x:running(Completed) s:RestartingAllContainers(RestartingAllContainers) a:RestartingAllContainers(Error) b:RestartingAllContainers(RestartingAllContainers)"},
		"again": {three("a"), lived("a@1=42", "b@1=run", "s@1=run", "x@1=0", "a=42", "b=137", "s=137", "x=0"), begun, "restarting, stop b-1, stop s-1",
			"Running Restarting x:Completed(Completed) s:running(RestartingAllContainers) a:Error(Error) b:running(RestartingAllContainers)"},
		"one was made and not started": {three("a"), lived("a=42", "b=made", "s=137", "x=0"), begun, "remove b-0, start x-1 in life 1",
			"Pending x:RestartingAllContainers(Completed) s:RestartingAllContainers(RestartingAllContainers) a:RestartingAllContainers(Error) b:ContainerCreating"},
		"an init container":                       {three("x"), lived("x=42"), begun, "start x-1 in life 1", "Pending x:RestartingAllContainers(Error) s:PodInitializing a:PodInitializing b:PodInitializing"},
		"an init container fails in the new life": {three("a"), lived("x@1=3", "a=42", "b=0", "s=137", "x=0"), begun, "terminate", "Failed"},
		"a sidecar":          {three("s"), lived("a=run", "b=0", "s=42", "x=0"), nil, "restarting, stop a-0", "Running Restarting x:Completed s:Error a:running b:Completed"},
		"the last has ended": {three("a"), lived("a@1=0", "b@1=0", "x@1=0", "s@1=run", "a=42", "b=137", "s=137", "x=0"), begun, "terminate", "Running x:Completed(Completed) s:running(RestartingAllContainers) a:Completed(Error) b:Completed(RestartingAllContainers)"},
		"too often": {three("a"), lived("a@1=42", "b@1=137", "s@1=137", "x@1=0"), func(m *Memory) {
			m.Life, m.Backoff["a"] = 2, Backoff{Delay: 20 * time.Second, Updated: now.Add(-time.Minute)}
		}, "a CrashLoopBackOff", "Running x:RestartingAllContainers(Completed) s:RestartingAllContainers(RestartingAllContainers) a:CrashLoopBackOff(Error) b:RestartingAllContainers(RestartingAllContainers)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := NewMemory()
			if test.memory != nil {
				test.memory(memory)
			}
			plan := Make(test.pod, test.seen, memory, now)
			got := describe(plan)
			for _, start := range plan.Start {
				if start.Life > 0 {
					word := fmt.Sprintf("start %s-%d", start.Container.Name, start.Attempt)
					got = strings.Replace(got, word, fmt.Sprintf("%s in life %d", word, start.Life), 1)
				}
			}
			if plan.Restarting {
				got = strings.TrimSuffix("restarting, "+got, ", ")
			}
			if got != test.plan {
				t.Errorf("plan %q, want %q", got, test.plan)
			}
			for _, stop := range plan.Stop {
				if stop.Grace == nil || *stop.Grace != 0 {
					t.Errorf("%s has grace", stop.Run.ID)
				}
			}
			s := Status(test.pod, test.seen, memory, plan, Facts{Now: now})
			if got := brief(&s); !strings.HasPrefix(got, test.status) {
				t.Errorf("status %q, want %q", got, test.status)
			}
		})
	}
}

// brief tells a status without what is of no interest here.
func brief(s *corev1.PodStatus) string {
	words := []string{string(s.Phase)}
	if c := condition(s, corev1.AllContainersRestarting); c != nil && c.Status == corev1.ConditionTrue {
		words = append(words, "Restarting")
	}
	for _, word := range strings.Fields(summary(*s)) {
		if strings.Contains(word, ":") {
			words = append(words, strings.TrimSuffix(word, "+"))
		}
	}
	return strings.Join(words, " ")
}

// Who makes all start over waits longer each time, as a container that fails does.
func TestStartingOverBacksOff(t *testing.T) {
	t.Parallel()
	p, memory := answering(testPod(corev1.RestartPolicyNever, "a", "b"), "a"), NewMemory()
	memory.Life = 1
	plan := Make(p, lived("a=42", "b=137"), memory, now)
	if got := describe(plan); got != "start a-1, start b-1" {
		t.Fatalf("plan %q", got)
	}
	for _, start := range plan.Start {
		if want := map[string]time.Duration{"a": BackoffBase, "b": 0}[start.Container.Name]; start.Backoff.Delay != want {
			t.Errorf("%s is remembered with %v, want %v", start.Container.Name, start.Backoff.Delay, want)
		}
	}
}

func TestTheConditionIsOfPodsThatMayStartOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		seen *cri.Pod
		want string
	}{
		"a pod without such a rule": {testPod(corev1.RestartPolicyAlways, "a"), observed("ready", "a=run"), "none"},
		"it runs":                   {answering(testPod(corev1.RestartPolicyAlways, "a"), "a"), observed("ready", "a=run"), "False "},
		"it starts over":            {answering(testPod(corev1.RestartPolicyAlways, "a"), "a"), observed("ready", "a=42"), "True RestartAllContainersStarted"},
		"it has succeeded":          {answering(testPod(corev1.RestartPolicyNever, "a"), "a"), observed("ready", "a=0"), "False PodCompleted"},
		"it has failed":             {answering(testPod(corev1.RestartPolicyNever, "a"), "a"), observed("ready", "a=1"), "False PodFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Status(test.pod, test.seen, NewMemory(), Make(test.pod, test.seen, NewMemory(), now), Facts{Now: now})
			got := "none"
			if c := condition(&s, corev1.AllContainersRestarting); c != nil {
				got = string(c.Status) + " " + c.Reason
			}
			if got != test.want {
				t.Errorf("condition %q, want %q", got, test.want)
			}
		})
	}
}

// A pod that is to go does not start over, and the first rule that is about an exit code decides.
func TestWhatComesBeforeStartingOver(t *testing.T) {
	t.Parallel()
	p := answering(testPod(corev1.RestartPolicyAlways, "a", "b"), "a")
	p.DeletionTimestamp = &metav1.Time{Time: now}
	if got := describe(Make(p, lived("a=42", "b=run"), NewMemory(), now)); got != "terminate and delete" {
		t.Errorf("plan of a deleted pod: %q", got)
	}
	p.DeletionTimestamp = nil
	again := corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: p.Spec.Containers[0].RestartPolicyRules[0].ExitCodes}
	p.Spec.Containers[0].RestartPolicyRules = append([]corev1.ContainerRestartRule{again}, p.Spec.Containers[0].RestartPolicyRules...)
	if got := describe(Make(p, lived("a=42", "b=run"), NewMemory(), now)); got != "start a-1" {
		t.Errorf("plan with a rule before it: %q", got)
	}
}
