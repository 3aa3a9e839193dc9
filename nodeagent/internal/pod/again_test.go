package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A container whose definition is changed is stopped, and starts again whatever it ends with and whatever its policy says; who ended by itself does not. A
// plain init container ends by itself, and a sidecar that has not started yet gets its time to start.
func TestChangedContainers(t *testing.T) {
	t.Parallel()
	never, onFailure := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure
	slow := testPod(never, "side:s", "a")
	slow.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		change  func(p *corev1.Pod) *corev1.Container
		runs    []string
		message string   // of the stop; empty is none
		ended   []string // the runs after it
		want    string   // the plan then
	}{
		"never":              {testPod(never, "a", "b"), first, []string{"a=run", "b=run"}, "Container a definition changed, will be restarted", []string{"a=0", "b=run"}, "start a-1"},
		"never, and alone":   {testPod(never, "a"), first, []string{"a=run"}, "Container a definition changed, will be restarted", []string{"a=137"}, "start a-1"},
		"on failure":         {testPod(onFailure, "a"), first, []string{"a=run"}, "Container a definition changed, will be restarted", []string{"a=0"}, "start a-1"},
		"ended by itself":    {testPod(never, "a", "b"), first, []string{"a=0", "b=run"}, "", []string{"a=0", "b=run"}, ""},
		"a sidecar":          {testPod(never, "side:s", "a"), firstInit, []string{"s=run", "a=run"}, "Init container s definition changed", []string{"s=0", "a=run"}, "start s-1"},
		"a sidecar starts":   {slow, firstInit, []string{"s=run"}, "", []string{"s=run"}, ""},
		"an init container":  {testPod(never, "init:x", "a"), firstInit, []string{"x=run"}, "", []string{"x=0"}, "start a-0"},
		"one that was there": {testPod(never, "init:x", "a"), firstInit, []string{"x=0", "a=run"}, "", []string{"x=0", "a=run"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := test.pod.DeepCopy()
			test.change(p).Image = "another"
			m := NewMemory()
			message := ""
			for _, stop := range Make(p, observed("ready", test.runs...), m, now).Stop {
				message, m.Again[stop.Run.ID] = stop.Message, stop.Again
			}
			if message != test.message {
				t.Errorf("stopped: %q, want %q", message, test.message)
			}
			seen := observed("ready", test.ended...)
			plan := Make(p, seen, m, now)
			if got := describe(plan); got != test.want {
				t.Errorf("then %q, want %q", got, test.want)
			}
			s := Status(p, seen, m, plan, Facts{Now: now})
			if s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed {
				t.Errorf("phase %s", s.Phase)
			}
			// The API takes no container back that is said to have ended for good.
			if state := s.ContainerStatuses[0].State; message != "" && len(test.pod.Spec.InitContainers) == 0 && (state.Terminated != nil || state.Waiting == nil) {
				t.Errorf("it is said to be %s", state.String())
			}
		})
	}
}

func first(p *corev1.Pod) *corev1.Container     { return &p.Spec.Containers[0] }
func firstInit(p *corev1.Pod) *corev1.Container { return &p.Spec.InitContainers[0] }

// Who is stopped for a probe starts again by the policy alone, also where it ends well.
func TestProbesKillStartsAgain(t *testing.T) {
	t.Parallel()
	for policy, want := range map[corev1.RestartPolicy]string{corev1.RestartPolicyOnFailure: "start a-1", corev1.RestartPolicyAlways: "start a-1", corev1.RestartPolicyNever: "terminate"} {
		p, m := testPod(policy, "a"), NewMemory()
		m.Probes["a-0"] = Probed{Kill: "liveness probe"}
		for _, stop := range Make(p, observed("ready", "a=run"), m, now).Stop {
			m.Again[stop.Run.ID] = stop.Again
		}
		if got := describe(Make(p, observed("ready", "a=0"), m, now)); got != want {
			t.Errorf("%s: %q, want %q", policy, got, want)
		}
	}
}

// A pod has ended when nothing of it runs, be it a sidecar, and whatever ended it.
func TestEndOfAPodIsToldWhenNothingRuns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen    []string
		failure *Failure
		want    corev1.PodPhase
	}{
		"its sidecar runs":              {[]string{"s=run", "a=0"}, nil, corev1.PodRunning},
		"its sidecar runs, it failed":   {[]string{"s=run", "a=1"}, nil, corev1.PodRunning},
		"all have ended":                {[]string{"s=137", "a=0"}, nil, corev1.PodSucceeded},
		"all have ended, it failed":     {[]string{"s=0", "a=1"}, nil, corev1.PodFailed},
		"too late, its sidecar runs":    {[]string{"s=run", "a=137"}, &Failure{Reason: "DeadlineExceeded", Message: "m"}, corev1.PodRunning},
		"too late, and all have ended":  {[]string{"s=0", "a=137"}, &Failure{Reason: "DeadlineExceeded", Message: "m"}, corev1.PodFailed},
		"evicted, with something there": {[]string{"s=run", "a=run"}, &Failure{Reason: "Evicted", Message: "m"}, corev1.PodRunning},
	} {
		p, m := testPod(corev1.RestartPolicyNever, "side:s", "a"), NewMemory()
		p.Status.Phase, m.Failed = corev1.PodRunning, test.failure
		seen := observed("ready", test.seen...)
		s := Status(p, seen, m, Make(p, seen, m, now), Facts{Now: now})
		if s.Phase != test.want || (s.Reason != "") != (test.want == corev1.PodFailed && test.failure != nil) {
			t.Errorf("%s: %s %q, want %s", name, s.Phase, s.Reason, test.want)
		}
	}
}
