package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/device/plugintest"
	sockets "howdah.dev/nodeagent/internal/plugin"
	"howdah.dev/nodeagent/internal/topology"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const widget = "example.com/widget"

// world is a node's folder with a manager that can be started anew.
type world struct {
	t       *testing.T
	dir     string
	clock   *clocktesting.FakeClock
	m       *Manager
	changed chan []types.UID
	stop    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "devices") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, clock: clocktesting.NewFakeClock(time.Now()), changed: make(chan []types.UID, 100)}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	w.m = New(Config{Dir: w.dir, Clock: w.clock, Registerer: prometheus.NewRegistry(), Changed: func(holders []types.UID) { w.changed <- holders }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.m.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("run: %v", err)
		}
		w.stop = func() {}
	}
	for { // until the folder is as the manager makes it
		if _, err := os.Stat(filepath.Join(w.dir, socket)); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// has waits until the node has so many devices, of which so many can be used.
func (w *world) has(capacity, allocatable int64) {
	w.t.Helper()
	deadline := time.After(time.Minute)
	for {
		c, a := w.m.Capacity()
		all, usable := c[widget], a[widget]
		if _, known := c[widget]; known && all.Value() == capacity && usable.Value() == allocatable {
			return
		}
		select {
		case <-w.changed:
		case <-deadline:
			w.t.Fatalf("capacity %v, allocatable %v, want %d and %d", c, a, capacity, allocatable)
		}
	}
}

func (w *world) plugin(devices []*pluginapi.Device) *plugintest.Plugin {
	w.t.Helper()
	p := &plugintest.Plugin{Dir: w.dir, Resource: widget, Options: &pluginapi.DevicePluginOptions{}, Answer: func(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
		return &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"WIDGETS": strings.Join(ids, ",")}}, nil
	}}
	p.Set(devices)
	w.t.Cleanup(p.Stop)
	return p
}

func asks(name string, n int64) corev1.Container {
	list := corev1.ResourceList{widget: *resource.NewQuantity(n, resource.DecimalSI)}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}
}

func podOf(uid types.UID, containers ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{}
	p.UID, p.Name, p.Spec.Containers = uid, string(uid), containers
	return p
}

// give allocates for all containers of a pod.
func (w *world) give(p *corev1.Pod) error {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := w.m.Allocate(w.t.Context(), p, &list[i], topology.Hint{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) ids(uid types.UID, container string) string {
	var out []string
	for _, d := range w.m.Of(uid, container) {
		out = append(out, d.IDs...)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPluginComesAndGoes(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a", "b", "c"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(3, 3)
	sick := plugintest.Devices("a", "b")
	sick[1].Health = pluginapi.Unhealthy
	p.Set(sick)
	w.has(2, 1)
	if got := w.m.Health("nobody", "x"); got != nil {
		t.Errorf("health of nobody: %v", got)
	}

	p.Stop() // its devices stay as capacity, for a while
	w.has(2, 0)
	if err := w.give(podOf("late", asks("main", 1))); err == nil || err.Error() != "no healthy devices present; cannot allocate unhealthy devices "+widget {
		t.Errorf("a device of a plugin that is away: %v", err)
	}
	driven := podOf("driven", asks("main", 1))
	driven.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c", RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: widget, RequestName: "container-0-request-0"}}}
	if err := w.give(driven); err != nil {
		t.Errorf("one that a driver provides: %v", err)
	}
	if got, err := w.m.Prepare(t.Context(), driven, &driven.Spec.Containers[0]); got != nil || err != nil {
		t.Errorf("it is prepared: %v, %v", got, err)
	}
	w.clock.Step(gracePeriod - time.Second)
	w.has(2, 0)
	w.clock.Step(time.Second)
	w.has(0, 0)

	if err := p.Start(); err != nil { // and it may come back
		t.Fatal(err)
	}
	w.has(2, 1)
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for want, req := range map[string]*pluginapi.RegisterRequest{
		`requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]`: {Version: "v1alpha", Endpoint: "x.sock", ResourceName: widget},
		`the ResourceName "cpu" is invalid`:                      {Version: "v1beta1", Endpoint: "x.sock", ResourceName: "cpu"},
		`the ResourceName "kubernetes.io/x" is invalid`:          {Version: "v1beta1", Endpoint: "x.sock", ResourceName: "kubernetes.io/x"},
		`the endpoint "../x.sock" is not a socket of the folder`: {Version: "v1beta1", Endpoint: "../x.sock", ResourceName: widget},
	} {
		if err := plugintest.Register(w.dir, req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestDevicesAreGivenOnce(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a", "b", "c"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(3, 3)
	if err := w.give(podOf("one", asks("main", 2))); err != nil {
		t.Fatal(err)
	}
	err := w.give(podOf("two", asks("main", 2)))
	if want := "requested number of devices unavailable for example.com/widget. Requested: 2, Available: 1"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := w.give(podOf("one", asks("main", 2))); err != nil { // what it has, it has
		t.Error(err)
	}
	if got := fmt.Sprint(p.Calls()); got != "[allocate [a b]]" {
		t.Errorf("calls: %s", got)
	}
	w.m.Release("one")
	if err := w.give(podOf("two", asks("main", 2))); err != nil {
		t.Error(err)
	}
}

func TestInitContainersLeaveTheirDevices(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a", "b", "c", "d"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(4, 4)
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asks("sidecar", 1)
	sidecar.RestartPolicy = &always
	one := podOf("one", asks("x", 1), asks("y", 1))
	one.Spec.InitContainers = []corev1.Container{asks("init", 2), sidecar, asks("late", 1)}
	if err := w.give(one); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"init", "sidecar", "late", "x", "y"} {
		got[name] = w.ids("one", name)
	}
	want := map[string]string{"init": "a b", "sidecar": "a", "late": "b", "x": "b", "y": "c"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAssignmentsOutliveTheAgent starts another one, to which the plugin registers again by itself.
func TestAssignmentsOutliveTheAgent(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.On(1, plugintest.Devices("a", "b")))
	p.Options.PreStartRequired = true
	p.Live(t)
	w.has(2, 2)
	one := podOf("one", asks("main", 1))
	if err := w.give(one); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	w.has(2, 2)
	if got := w.m.Of("one", "main"); len(got) != 1 || !slices.Equal(got[0].IDs, []string{"a"}) || !slices.Equal(got[0].Nodes, []int64{1}) {
		t.Errorf("after the restart: %v", got)
	}
	answers, err := w.m.Prepare(t.Context(), one, &one.Spec.Containers[0])
	if err != nil || len(answers) != 1 || answers[0].GetEnvs()["WIDGETS"] != "a" {
		t.Errorf("%v %v", answers, err)
	}
	if got := fmt.Sprint(p.Calls()); got != "[allocate [a] prestart [a]]" {
		t.Errorf("calls: %s", got)
	}
	if err := w.give(podOf("two", asks("main", 2))); err == nil {
		t.Error("a device was given twice")
	}

	// A file that is not whole is not believed.
	w.stop()
	path := filepath.Join(w.dir, checkpoint)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), `"main"`, `"evil"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := w.m.Holders(); len(got) != 0 {
		t.Errorf("holders by a broken file: %v", got)
	}
}

func TestPreferredDevices(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(append(plugintest.On(0, plugintest.Devices("a", "b", "c")), plugintest.On(1, plugintest.Devices("d", "e"))...))
	p.Options.GetPreferredAllocationAvailable = true
	p.Prefer = func(available, must []string, size int) []string {
		return append(must, available[len(available)-size+len(must):]...)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(5, 5)
	near, main := topology.Hint{Nodes: topology.Of(0)}, asks("main", 2)
	if err := w.m.Allocate(t.Context(), podOf("one", main), &main, near); err != nil {
		t.Fatal(err)
	}
	if err := w.m.Allocate(t.Context(), podOf("two", main), &main, near); err != nil { // one from there, and another
		t.Fatal(err)
	}
	if one, two := w.ids("one", "main"), w.ids("two", "main"); one != "b c" || two != "a e" {
		t.Errorf("%s; %s", one, two)
	}
	if got := fmt.Sprint(p.Calls()); got != "[prefer 2 of [a b c] with [] allocate [b c] prefer 2 of [a d e] with [a] allocate [a e]]" {
		t.Errorf("calls: %s", got)
	}
	if got := fmt.Sprint(w.m.Hints(podOf("three", asks("main", 1)), &main)); got != "map[example.com/widget:[]]" {
		t.Errorf("hints for two where one is left: %s", got)
	}
	last := asks("main", 1)
	if got := fmt.Sprint(w.m.Hints(podOf("three", last), &last)); got != "map[example.com/widget:[{3 false} {2 true}]]" {
		t.Errorf("hints for the last: %s", got)
	}
}

func TestHealthIsTold(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a", "b"))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(2, 2)
	if err := w.give(podOf("one", asks("main", 2))); err != nil {
		t.Fatal(err)
	}
	health := func() string {
		var out []string
		for _, s := range w.m.Health("one", "main") {
			for _, r := range s.Resources {
				out = append(out, fmt.Sprintf("%s %s %s", s.Name, r.ResourceID, r.Health))
			}
		}
		return strings.Join(out, ", ")
	}
	if got := health(); got != "example.com/widget a Healthy, example.com/widget b Healthy" {
		t.Error(got)
	}
	sick := plugintest.Devices("a")
	sick[0].Health = pluginapi.Unhealthy
	p.Set(sick)
	for holders := range w.changed {
		if slices.Contains(holders, "one") {
			break
		}
	}
	if got := health(); got != "example.com/widget a Unhealthy, example.com/widget b Unknown" {
		t.Error(got)
	}
}

func TestAPluginThatFails(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a"))
	p.Answer = func([]string) (*pluginapi.ContainerAllocateResponse, error) { return nil, errors.New("out of order") }
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.has(1, 1)
	if err := w.give(podOf("one", asks("main", 1))); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v", err)
	}
	if held := w.m.Held(); len(held) != 0 {
		t.Errorf("given away: %v", held)
	}
}

// Of a plugin that never tells of its devices the node has the resource, and none of it.
func TestPluginThatTellsOfNoDevices(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a"))
	p.Silent = errors.New("out of order")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		capacity, _ := w.m.Capacity()
		if q, known := capacity[widget]; known {
			if !q.IsZero() {
				t.Errorf("capacity %s", q.String())
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the node does not know the resource")
		}
	}
	w.has(0, 0)
	w.clock.Step(gracePeriod)
	if capacity, _ := w.m.Capacity(); len(capacity) != 1 {
		t.Errorf("after the grace %v", capacity)
	}
}

// A plugin that others find by its socket is asked for its options, and gone when they say so.
func TestPluginThatIsFound(t *testing.T) {
	w := newWorld(t)
	p := w.plugin(plugintest.Devices("a"))
	p.Options.PreStartRequired = true
	socket, err := p.Serve()
	if err != nil {
		t.Fatal(err)
	}
	found := sockets.Plugin{Type: "DevicePlugin", Name: widget, Endpoint: socket, Versions: []string{"v1beta1"}}
	if err := (Watched{w.m}).Register(t.Context(), sockets.Plugin{Name: widget, Endpoint: socket, Versions: []string{"v2"}}); err == nil {
		t.Error("a version that is not there is taken")
	}
	if err := (Watched{w.m}).Register(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	w.has(1, 1)
	one := podOf("one", asks("main", 1))
	if err := w.give(one); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Prepare(t.Context(), one, &one.Spec.Containers[0]); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Calls()); got != "[allocate [a] prestart [a]]" {
		t.Errorf("calls: %s", got)
	}
	(Watched{w.m}).Deregister(t.Context(), sockets.Plugin{Name: widget, Endpoint: "/another"})
	w.has(1, 1)
	(Watched{w.m}).Deregister(t.Context(), found)
	w.has(1, 0)
}
