package worker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/fakecri"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/pleg"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
	"howdah.dev/nodeagent/internal/verify"
)

// networkBegan is when every sandbox got its network.
var networkBegan = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is what a Manager works on.
type world struct {
	t       *testing.T
	runtime *fakecri.Runtime
	dir     string

	metrics *Metrics

	mu       sync.Mutex
	statuses map[types.UID]corev1.PodStatus
	reports  []corev1.PodStatus // every status, in the order in which they came
	deleted  []string
	events   []string
	volumes  error
	room     pod.Room
	others   []*corev1.Pod
	groups   []string                    // limits of pods as a whole, as they were set
	node     *corev1.Node                // as the agent knows it
	fresh    *corev1.Node                // as the API has it; nil is no answer
	serving  map[types.UID]chan struct{} // closed when the pod leaves its services
	refusals map[types.UID]*pod.Failure  // of what pods are to have for themselves
	own      container.Own               // what each container has for itself, or
	unready  error                       // why it has not
	claims   Claims                      // nil: nobody claims anything
	cdi      func(*corev1.Pod, *corev1.Container) ([]string, error)
	released []types.UID       // whose things were taken back
	stuck    int               // how often volumes are not taken away
	cleanups []time.Time       // when they were to be
	handlers map[string]string // of runtime classes
	isolated chan error        // what waiting for network policies comes to; nil: they are in force
}

func (w *world) Set(_ context.Context, p *corev1.Pod, s corev1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[p.UID] = s
	w.reports = append(w.reports, s)
}

func (w *world) Delete(_ context.Context, p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleted = append(w.deleted, p.Name)
}

func (w *world) Event(_ *corev1.Pod, container, _, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, container+" "+reason+": "+message)
}

func (w *world) status(uid types.UID) corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.statuses[uid]
	return *s.DeepCopy()
}

func (w *world) Forget(types.UID) {}

func (w *world) Has(p *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serving[p.UID] != nil
}

func (w *world) Left(ctx context.Context, p *corev1.Pod) error {
	w.mu.Lock()
	serving := w.serving[p.UID]
	w.mu.Unlock()
	select {
	case <-serving:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type volumes struct{ *world }

func (v volumes) Setup(context.Context, *corev1.Pod, *corev1.PodStatus) (container.Volumes, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return container.Volumes{}, v.volumes
}
func (v volumes) Refresh(context.Context, *corev1.Pod, *corev1.PodStatus) error { return nil }
func (v volumes) SubPath(_ *corev1.Pod, _, path, _ string) (string, error)      { return path, nil }
func (v volumes) Release(context.Context, types.UID) error                      { return nil }
func (v volumes) Cleanup(context.Context, types.UID) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cleanups = append(v.cleanups, time.Now())
	if len(v.cleanups) <= v.stuck {
		return errors.New("a driver does not take it back")
	}
	return nil
}

type cgroups struct{ *world }

func (cgroups) Path(p *corev1.Pod) string { return "/kubepods/pod" + string(p.UID) }
func (cgroups) Remove(*corev1.Pod) error  { return nil }
func (c cgroups) Ensure(p *corev1.Pod) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := pod.Whole(p).Limits
	c.groups = append(c.groups, fmt.Sprintf("cpu=%v memory=%v", limits.Cpu(), limits.Memory()))
	return nil
}

// assigner gives nobody anything, or refuses to.
type assigner struct{ *world }

func (a assigner) Admit(_ context.Context, p *corev1.Pod) *pod.Failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusals[p.UID]
}
func (a assigner) Own(_ context.Context, p *corev1.Pod, c *corev1.Container) (container.Own, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.own
	if a.cdi != nil {
		names, err := a.cdi(p, c)
		if err != nil {
			return own, err
		}
		own.AddCDI(names)
	}
	return own, a.unready
}
func (a assigner) Release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = append(a.released, uid)
}

// noClaims prepares nothing.
type noClaims struct{}

func (noClaims) Prepare(context.Context, *corev1.Pod) error { return nil }
func (noClaims) Holds(types.UID) bool                       { return false }
func (noClaims) Unprepare(context.Context, types.UID) error { return nil }

// classes are those of the test, and users some that every pod may have.
type classes struct{ *world }

func (c classes) RuntimeHandler(_ context.Context, class string) (string, error) {
	if handler, ok := c.handlers[class]; ok {
		return handler, nil
	}
	return "", fmt.Errorf("RuntimeClass %q not found", class)
}

type users struct{}

func (users) Of(p *corev1.Pod) (container.Users, error) {
	if container.OwnUsers(p) {
		return container.Users{Host: 65536, Length: 65536}, nil
	}
	return container.Users{}, nil
}

type objects struct{ *world }

func (objects) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, errors.New("no ConfigMaps here")
}
func (objects) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errors.New("no Secrets here")
}
func (objects) Services(string) []*corev1.Service { return nil }

func newNode(cpu string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}}}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, runtime: fakecri.New(), dir: t.TempDir(), statuses: map[types.UID]corev1.PodStatus{}, node: newNode("4"), claims: noClaims{}, metrics: NewMetrics(nil, clock.RealClock{})}
	w.runtime.AddImage("docker.io/library/i:1")
	return w
}

// start runs a manager with its event generator until stop is called.
func (w *world) start() (m *Manager, stop func()) {
	w.t.Helper()
	clk := clock.RealClock{}
	m = New(Config{
		LogLinks: logs.Links(filepath.Join(w.dir, "containers")),
		Runtime:  w.runtime, Observer: cri.NewObserver(w.runtime), Images: image.NewPuller(image.PullerConfig{Images: w.runtime, Secrets: objects{w}, Records: verify.New(verify.Config{Dir: w.dir + "/pulls", Clock: clk}), Events: w, Clock: clk}),
		Volumes: volumes{w}, Cgroups: cgroups{w}, Objects: objects{w}, Assigner: assigner{w}, Claims: w.claims, Classes: classes{w}, Users: users{}, Status: w, Events: w, Clock: clk, Metrics: w.metrics,
		Probes: &probe.Runner{Checker: probe.NewChecker(Exec(w.runtime)), Clock: clk, Events: w},
		Node: func() container.Node {
			yes, no := true, false
			return container.Node{Name: "n", RootDir: w.dir + "/root", LogDir: w.dir + "/log", Handlers: []corev1.NodeRuntimeHandler{
				{Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &yes}}, {Name: "old", Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &no}},
			}}
		},
		HostIPs: func() []string { return []string{"192.0.2.1"} },
		Trace:   func(*corev1.Pod) trace.SpanContext { return trace.SpanContext{} }, RefreshEvery: time.Minute,
		Room: func(*corev1.Pod) pod.Room {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.room
		},
		Site: func() admit.Site {
			w.mu.Lock()
			defer w.mu.Unlock()
			return admit.Site{Node: w.node, Others: w.others}
		},
		FreshNode: func(context.Context) (*corev1.Node, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.fresh == nil {
				return nil, errors.New("the API does not answer")
			}
			return w.fresh, nil
		},
		Rotation: w, Isolate: w.isolate, Networked: func(string) (cni.Added, bool) {
			return cni.Added{Began: networkBegan, Ended: networkBegan.Add(3 * time.Millisecond), Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.5")}}, true
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			<-done
		})
	}
	w.t.Cleanup(stop)
	return m, stop
}

func (w *world) eventually(what string, check func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !check() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("not %s; calls:\n%s\nevents:\n%s\nstatuses: %v", what, strings.Join(w.runtime.Calls(), "\n"), strings.Join(w.events, "\n"), w.statuses)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (w *world) ready(uid types.UID) func() bool {
	return func() bool {
		for _, c := range w.status(uid).Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}
}

func newPod(name string, containers ...string) *corev1.Pod {
	grace := int64(5)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
	}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "i:1"})
	}
	return p
}

func endingPod(p *corev1.Pod, grace int64) *corev1.Pod {
	p = p.DeepCopy()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
	return p
}

func TestPodLives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := newPod("p", "a", "b")
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 7))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	calls := w.runtime.Calls()
	slices.Sort(calls[5:7]) // both containers end at the same time
	want := []string{
		"RunPodSandbox p", "CreateContainer a", "StartContainer a", "CreateContainer b", "StartContainer b",
		"StopContainer a 7", "StopContainer b 7", "StopPodSandbox sandbox-1",
	}
	if !slices.Equal(calls[:len(want)], want) {
		t.Errorf("calls:\n%s\nwant first:\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
	if last := calls[len(calls)-1]; last != "RemovePodSandbox sandbox-1" {
		t.Errorf("last call %q", last)
	}
	if s := w.status(p.UID); s.Phase != corev1.PodFailed { // both ended with 143
		t.Errorf("phase %s at the end", s.Phase)
	}
	if m.Update(endingPod(p, 7)); len(w.runtime.Calls()) != len(calls) {
		t.Error("a late update brought the pod back")
	}
}

func TestPodWithTakenPortIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	first, second := newPod("first", "a"), newPod("second", "a")
	for _, p := range []*corev1.Pod{first, second} {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	first.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)}
	w.others = []*corev1.Pod{first, second}
	m.Update(second)
	w.eventually("rejected", func() bool { return w.status(second.UID).Phase == corev1.PodFailed })
	s := w.status(second.UID)
	if s.Reason != "NodePorts" || len(s.ContainerStatuses) != 0 ||
		s.Message != "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports" {
		t.Errorf("%+v", s)
	}
	told := second.DeepCopy()
	told.Status = s
	m.Update(told)
	m.Update(first)
	w.eventually("the first is ready", w.ready(first.UID))
	m.Update(endingPod(told, 5))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if calls := strings.Join(w.runtime.Calls(), "\n"); strings.Contains(calls, "second") {
		t.Errorf("something was made of it:\n%s", calls)
	}
	if s := w.status(second.UID); s.Phase != corev1.PodFailed || s.Reason != "NodePorts" || len(s.ContainerStatuses) != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestRestartOfTheAgentTouchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, stop := w.start()
	p := newPod("p", "a")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1, FailureThreshold: 1}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	stop()
	before := w.runtime.Calls()
	p = p.DeepCopy()
	p.Status = w.status(p.UID)
	p.Status.ContainerStatuses[0].ContainerID = "containerd://container-2"
	w.mu.Lock()
	w.reports = nil
	w.mu.Unlock()

	m, _ = w.start()
	m.Update(p)
	w.eventually("reported", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.reports) > 0 })
	if !w.ready(p.UID)() {
		t.Errorf("the pod is not ready any more: %v", w.status(p.UID))
	}
	if calls := w.runtime.Calls(); !slices.Equal(calls, before) {
		t.Errorf("the restarted agent did: %v", calls[len(before):])
	}
}

func TestPodsThatOnlyTheRuntimeKnowsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, stop := w.start()
	p := newPod("p", "a")
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	stop()
	m, _ = w.start() // nobody tells it of the pod
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	w.runtime.Fail("GetContainerEvents", errors.New("none"))
	go func() { done <- pleg.New(w.runtime, m, clock.RealClock{}, nil, nil).Run(ctx) }()
	w.eventually("removed", func() bool { return slices.Contains(w.runtime.Calls(), "RemovePodSandbox sandbox-1") })
	if !slices.Contains(w.runtime.Calls(), "StopContainer a 5") {
		t.Errorf("it was not ended with its own grace: %v", w.runtime.Calls())
	}
	if len(w.deleted) > 0 {
		t.Errorf("deleted in the API: %v", w.deleted)
	}
	cancel()
	<-done
}

func TestContainersRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := newPod("p", "a")
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	w.runtime.Exit("a", 3)
	m.Wake(p.UID)
	w.eventually("restarted", func() bool {
		s := w.status(p.UID)
		return s.ContainerStatuses[0].RestartCount == 1 && s.ContainerStatuses[0].State.Running != nil
	})
	w.runtime.Exit("a", 3)
	m.Wake(p.UID)
	w.eventually("backing off", func() bool {
		waits := w.status(p.UID).ContainerStatuses[0].State.Waiting
		return waits != nil && waits.Reason == "CrashLoopBackOff"
	})
}

func TestSandboxAndVolumesAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runtime.Fail("RunPodSandbox", errors.New("no network"))
	w.volumes = errors.New(`MountVolume.SetUp failed for volume "v" : nothing`)
	m, _ := w.start()
	p := newPod("p", "a")
	m.Update(p)
	has := func(text string) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.ContainsFunc(w.events, func(e string) bool { return strings.Contains(e, text) })
		}
	}
	w.eventually("told of its volumes", has(`FailedMount: MountVolume.SetUp failed for volume "v" : nothing`))
	w.mu.Lock()
	w.volumes = nil
	w.mu.Unlock()
	w.eventually("told of its sandbox", has("FailedCreatePodSandBox: Failed to create pod sandbox: no network"))
	w.runtime.Fail("RunPodSandbox", nil)
	w.eventually("ready", w.ready(p.UID))
}

func TestDeletionInterruptsAPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pulling := make(chan struct{})
	release := make(chan struct{})
	w.runtime.OnPull(func(ctx context.Context, _ string) error {
		close(pulling)
		<-release
		return errors.New("too late")
	})
	defer close(release)
	m, _ := w.start()
	p := newPod("p", "a")
	p.Spec.Containers[0].Image = "slow:1"
	m.Update(p)
	<-pulling
	m.Update(endingPod(p, 5))
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
}

func TestFailedContainersSayWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(w *world, p *corev1.Pod)
		reason string
		event  string
	}{
		"image name": {func(_ *world, p *corev1.Pod) { p.Spec.Containers[0].Image = "UPPER" }, "InvalidImageName", "Failed: Error: InvalidImageName"},
		"never": {func(_ *world, p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "none:1", corev1.PullNever
		}, "ErrImageNeverPull", `Container image "none:1" is not present with pull policy of Never`},
		"pull": {func(w *world, p *corev1.Pod) {
			w.runtime.OnPull(func(context.Context, string) error { return errors.New("no registry") })
			p.Spec.Containers[0].Image = "none:1"
		}, "ImagePullBackOff", `Failed: Failed to pull image "none:1": no registry`},
		"configuration": {func(_ *world, p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		}, "CreateContainerConfigError", "Failed: Error: no Secrets here"},
		"create": {func(w *world, _ *corev1.Pod) {
			w.runtime.Fail("CreateContainer", status.Error(codes.Internal, "no room"))
		}, "CreateContainerError", "Failed: Error: no room"},
		"start": {func(w *world, _ *corev1.Pod) {
			w.runtime.Fail("StartContainer", status.Error(codes.Unknown, "no such program"))
		}, "CrashLoopBackOff", "Failed: Error: no such program"},
		"hook": {func(w *world, p *corev1.Pod) {
			w.runtime.OnExec(func(string, []string) (string, int32) { return "oh", 1 })
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
		}, "CrashLoopBackOff", "FailedPostStartHook: PostStartHook failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m, _ := w.start()
			p := newPod("p", "a")
			test.change(w, p)
			m.Update(p)
			w.eventually("waiting with "+test.reason, func() bool {
				s := w.status(p.UID)
				return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == test.reason
			})
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.ContainsFunc(w.events, func(e string) bool { return strings.Contains(e, test.event) }) {
				t.Errorf("no event %q in %s", test.event, strings.Join(w.events, "\n"))
			}
		})
	}
}

func TestProbesDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	failing := map[string]bool{"ready": true}
	w.runtime.OnExec(func(_ string, command []string) (string, int32) {
		mu.Lock()
		defer mu.Unlock()
		if failing[command[0]] {
			return "no", 1
		}
		return "", 0
	})
	m, _ := w.start()
	p := newPod("p", "a")
	check := func(name string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}, PeriodSeconds: 1, FailureThreshold: 1}
	}
	p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].LivenessProbe = check("ready"), check("live")
	m.Update(p)
	w.eventually("unready", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.events, "a Unhealthy: Readiness probe failed: no")
	})
	if w.ready(p.UID)() {
		t.Error("ready while its probe fails")
	}
	set := func(name string, fails bool) {
		mu.Lock()
		defer mu.Unlock()
		failing[name] = fails
	}
	set("ready", false)
	w.eventually("ready", w.ready(p.UID))
	set("live", true)
	w.eventually("ended", func() bool { return slices.Contains(w.runtime.Calls(), "StopContainer a 5") })
	set("live", false)
	w.eventually("restarted", func() bool { return w.status(p.UID).ContainerStatuses[0].RestartCount == 1 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if want := "a Killing: Container a failed liveness probe, will be restarted"; !slices.Contains(w.events, want) {
		t.Errorf("no event %q", want)
	}
}

// A pod that ends slowly may become unready meanwhile, which load balancers have to hear; that it lives is no longer asked.
func TestReadinessIsToldToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var unready, lived atomic.Bool
	release := make(chan struct{})
	ending := make(chan struct{})
	w.runtime.OnExec(func(_ string, command []string) (string, int32) {
		switch command[0] {
		case "hook":
			close(ending)
			<-release
		case "ready":
			if unready.Load() {
				return "no", 1
			}
		case "live":
			if unready.Load() {
				lived.Store(true)
			}
		}
		return "", 0
	})
	m, _ := w.start()
	p := newPod("p", "a")
	run := func(name string) *corev1.ExecAction { return &corev1.ExecAction{Command: []string{name}} }
	check := func(name string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: run(name)}, PeriodSeconds: 1, FailureThreshold: 1}
	}
	c := &p.Spec.Containers[0]
	c.ReadinessProbe, c.LivenessProbe = check("ready"), check("live")
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: run("hook")}}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	m.Update(endingPod(p, 30))
	<-ending
	if !w.ready(p.UID)() {
		t.Error("a pod is unready because it ends")
	}
	unready.Store(true)
	w.eventually("unready while it ends", func() bool { return !w.ready(p.UID)() })
	if lived.Load() {
		t.Error("a pod that ends is asked whether it lives")
	}
	close(release)
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
}

func TestManyPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	var pods []*corev1.Pod
	for i := range 50 {
		p := newPod(fmt.Sprintf("p%d", i), "a")
		pods = append(pods, p)
		m.Update(p)
	}
	for _, p := range pods {
		w.eventually(p.Name+" ready", w.ready(p.UID))
		m.Update(endingPod(p, 0))
	}
	w.eventually("all gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == len(pods) })
}
