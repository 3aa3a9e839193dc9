package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func parse(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	var p corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// READY, STATUS and RESTARTS, as kubectl get shows them for each course of a pod's life.
func TestSummary(t *testing.T) {
	t.Parallel()
	const (
		spec     = "spec: {containers: [{name: a}, {name: b}]}\n"
		withInit = "spec: {initContainers: [{name: i}, {name: j}], containers: [{name: a}]}\n"
		sidecar  = "spec: {initContainers: [{name: s, restartPolicy: Always}, {name: i}], containers: [{name: a}]}\n"
		run      = "state: {running: {}}"
	)
	for name, c := range map[string]struct{ pod, ready, status, restarts string }{
		"pending":  {spec + "status: {phase: Pending}", "0/2", "Pending", "0"},
		"evicted":  {spec + "status: {phase: Failed, reason: Evicted}", "0/2", "Evicted", "0"},
		"gated":    {spec + "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}", "0/2", "SchedulingGated", "0"},
		"creating": {spec + "status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}, {name: b, state: {waiting: {reason: ContainerCreating}}}]}", "0/2", "ContainerCreating", "0"},
		"running":  {spec + "status: {phase: Running, containerStatuses: [{name: a, ready: true, " + run + "}, {name: b, ready: true, " + run + "}]}", "2/2", "Running", "0"},
		"not ready": {spec + "status: {phase: Running, containerStatuses: [{name: a, ready: true, " + run + "}, {name: b, ready: false, " + run + "}]}",
			"1/2", "Running", "0"},
		"crash loop": {spec + "status: {phase: Running, containerStatuses: [{name: a, ready: true, " + run + "}, {name: b, restartCount: 3, lastState: {terminated: {finishedAt: '2026-01-02T02:59:05Z'}}, state: {waiting: {reason: CrashLoopBackOff}}}]}",
			"1/2", "CrashLoopBackOff", "3 (5m ago)"},
		"image":     {spec + "status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ImagePullBackOff}}}, {name: b, ready: true, " + run + "}]}", "1/2", "ImagePullBackOff", "0"},
		"completed": {spec + "status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: {reason: Completed}}}, {name: b, state: {terminated: {reason: Completed}}}]}", "0/2", "Completed", "0"},
		"error":     {spec + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {reason: Error, exitCode: 1}}}]}", "0/2", "Error", "0"},
		"signal":    {spec + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {signal: 9}}}]}", "0/2", "Signal:9", "0"},
		"exit code": {spec + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 7}}}]}", "0/2", "ExitCode:7", "0"},
		"one done, ready": {spec + "status: {phase: Running, conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: a, state: {terminated: {reason: Completed}}}, {name: b, ready: true, " + run + "}]}",
			"1/2", "Running", "0"},
		"one done, not ready": {spec + "status: {phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: a, state: {terminated: {reason: Completed}}}, {name: b, ready: true, " + run + "}]}",
			"1/2", "NotReady", "0"},
		"first init":  {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}}, {name: j, state: {waiting: {reason: PodInitializing}}}]}", "0/1", "Init:0/2", "0"},
		"second init": {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j, restartCount: 2, state: {running: {}}}]}", "0/1", "Init:1/2", "2"},
		"init error":  {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]}", "0/1", "Init:Error", "0"},
		"init code":   {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 5}}}]}", "0/1", "Init:ExitCode:5", "0"},
		"init loop":   {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, restartCount: 4, lastState: {terminated: {finishedAt: '2026-01-02T03:04:00Z'}}, state: {waiting: {reason: CrashLoopBackOff}}}]}", "0/1", "Init:CrashLoopBackOff", "4 (5s ago)"},
		"after init":  {withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, restartCount: 9, state: {terminated: {exitCode: 0}}}, {name: j, state: {terminated: {exitCode: 0}}}], containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]}", "0/1", "PodInitializing", "0"},
		"sidecar runs": {sidecar + "status: {phase: Running, initContainerStatuses: [{name: s, started: true, ready: true, restartCount: 1, " + run + "}, {name: i, state: {terminated: {exitCode: 0}}}], containerStatuses: [{name: a, ready: true, " + run + "}]}",
			"2/2", "Running", "1"},
		"sidecar starts": {sidecar + "status: {phase: Pending, initContainerStatuses: [{name: s, started: false, " + run + "}]}", "0/2", "Init:0/2", "0"},
		"terminating":    {"metadata: {deletionTimestamp: '2026-01-02T03:04:00Z'}\n" + spec + "status: {phase: Running}", "0/2", "Terminating", "0"},
		"lost node":      {"metadata: {deletionTimestamp: '2026-01-02T03:04:00Z'}\n" + spec + "status: {phase: Running, reason: NodeLost}", "0/2", "Unknown", "0"},
		"done, deleted":  {"metadata: {deletionTimestamp: '2026-01-02T03:04:00Z'}\n" + spec + "status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: {reason: Completed}}}]}", "0/2", "Completed", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := cells(parse(t, c.pod), clock)
			if got[1] != c.ready || got[2] != c.status || got[3] != c.restarts {
				t.Errorf("got %v %v %v, want %s %s %s", got[1], got[2], got[3], c.ready, c.status, c.restarts)
			}
		})
	}
}

func TestWideColumns(t *testing.T) {
	t.Parallel()
	p := parse(t, `
metadata: {name: web, creationTimestamp: '2026-01-01T03:04:05Z'}
spec: {nodeName: node1, readinessGates: [{conditionType: a.b/c}, {conditionType: d}], containers: [{name: a}]}
status: {phase: Running, podIPs: [{ip: 10.244.1.2}], conditions: [{type: a.b/c, status: 'True'}]}`)
	got := cells(p, clock)
	want := []any{"web", "0/1", "Running", "0", "24h", "10.244.1.2", "node1", "<none>", "1/2"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: got %v, want %v", columns[i].Name, got[i], want[i])
		}
	}
	bare := cells(&corev1.Pod{}, clock)
	for i := 5; i < 9; i++ {
		if bare[i] != "<none>" {
			t.Errorf("%s: got %v", columns[i].Name, bare[i])
		}
	}
	if bare[4] != "<unknown>" {
		t.Errorf("age of a pod without a creation time: %v", bare[4])
	}
}
