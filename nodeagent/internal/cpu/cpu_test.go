package cpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/cpuset"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/fakecri"
	"howdah.dev/nodeagent/internal/topology"
	"howdah.dev/nodeagent/internal/topology/topologytest"
)

// machine has two sockets, each a NUMA node of four cores of two threads: CPU n and n+8 are a core, the even ones are on socket 0.
func machine() topology.Machine {
	m := topology.Machine{Node: map[int]topology.Node{0: {}, 1: {}}}
	for id := range 16 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id % 8, Socket: id % 2, Node: id % 2})
	}
	return m
}

func set(text string) cpuset.CPUSet {
	s, err := cpuset.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

func TestTake(t *testing.T) {
	for name, c := range map[string]struct {
		free string
		n    int
		want string
	}{
		"a socket":                              {"0-15", 8, "0,2,4,6,8,10,12,14"},
		"a socket and a core":                   {"0-15", 10, "0-2,4,6,8-10,12,14"},
		"a core":                                {"0-15", 2, "0,8"},
		"a core and a thread of the same node":  {"0-15", 3, "0,2,8"},
		"a thread of a core that is in use":     {"1-15", 1, "8"},
		"cores of the node with the least left": {"1-7,9-15", 2, "2,10"},
		"all":                                   {"3,5", 2, "3,5"},
		"none":                                  {"3", 0, ""},
	} {
		got, err := take(machine(), set(c.free), c.n)
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s %v, want %s", name, got, err, c.want)
		}
	}
	_, err := take(machine(), set("1,2"), 3)
	if err == nil || err.Error() != "not enough cpus available to satisfy request: requested=3, available=2" {
		t.Error(err)
	}
}

func TestSpread(t *testing.T) {
	for name, c := range map[string]struct {
		free     string
		n, group int
		want     string
	}{
		"one node has them":          {"0-15", 8, 1, "0,2,4,6,8,10,12,14"},
		"half from each":             {"0-15", 10, 1, "0-5,8-11"},
		"half from each, by cores":   {"0-15", 12, 2, "0-5,8-13"},
		"not in equal parts: packed": {"0-1,2,4,6,8,10,12", 8, 1, "0-2,4,6,8,10,12"},
	} {
		got, err := spread(machine(), set(c.free), c.n, c.group)
		if err != nil || got.Size() != c.n || got.String() != c.want {
			t.Errorf("%s: %s %v, want %s", name, got, err, c.want)
		}
	}
}

// TestTakeIsNeverWrong takes of any free CPUs any number.
func TestTakeIsNeverWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		free := cpuset.New()
		for id := range 16 {
			if random.IntN(3) > 0 {
				free = free.Union(cpuset.New(id))
			}
		}
		n := random.IntN(free.Size() + 1)
		for _, pick := range []func() (cpuset.CPUSet, error){
			func() (cpuset.CPUSet, error) { return take(machine(), free, n) },
			func() (cpuset.CPUSet, error) { return spread(machine(), free, n, 1) },
		} {
			if got, err := pick(); err != nil || got.Size() != n || !got.IsSubsetOf(free) {
				t.Fatalf("%d of %s: %s %v", n, free, got, err)
			}
		}
	}
}

func newManager(t *testing.T, path string, options Options) *Manager {
	t.Helper()
	m, err := New(Config{Machine: machine(), Reserved: cpuset.New(0), Options: options, State: path, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func asks(name, cpus string) corev1.Container {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}
}

func TestWhoHasCPUsForHimself(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "cpu_manager_state"), Options{})
	best := corev1.Container{Name: "main"}
	half := asks("half", "1500m")
	p := topologytest.PodOf("u", nil, asks("main", "2"), half)
	if err := topologytest.Give(m, p, 1); err != nil {
		t.Fatal(err)
	}
	if err := topologytest.Give(m, topologytest.PodOf("other", nil, best)); err != nil {
		t.Fatal(err)
	}
	if got := m.Of("u", "main").String(); got != "1,9" {
		t.Errorf("its own: %s", got)
	}
	for uid, name := range map[types.UID]string{"u": "half", "other": "main"} {
		if got := m.Of(uid, name).String(); got != "0,2-8,10-15" {
			t.Errorf("%s/%s shares %s", uid, name, got)
		}
	}
	if err := topologytest.Give(m, topologytest.PodOf("big", nil, asks("main", "14"))); err == nil || err.Error() != "not enough cpus available to satisfy request: requested=14, available=13" {
		t.Error(err)
	}
	m.Release("u")
	if got := m.Of("other", "main").String(); got != "0-15" {
		t.Errorf("shared after the end: %s", got)
	}
}

func TestInitContainersLeaveTheirCPUs(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"), Options{})
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asks("sidecar", "2")
	sidecar.RestartPolicy = &always
	if err := topologytest.Give(m, topologytest.PodOf("u", []corev1.Container{asks("init", "4"), sidecar}, asks("x", "2"), asks("y", "1")), 1); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, name := range []string{"init", "sidecar", "x", "y"} {
		got += name + "=" + m.Of("u", name).String() + " "
	}
	if want := "init=1,3,9,11 sidecar=1,9 x=3,11 y=5 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := wantsAll(topologytest.PodOf("u", []corev1.Container{asks("init", "4"), sidecar}, asks("x", "2"), asks("y", "1"))); n != 5 {
		t.Errorf("at a time: %d", n)
	}
}

func TestOptions(t *testing.T) {
	o, err := ParseOptions(map[string]string{"full-pcpus-only": "true", "strict-cpu-reservation": "true", "distribute-cpus-across-numa": "false"})
	if err != nil || o != (Options{FullCores: true, StrictReserved: true}) {
		t.Errorf("%+v %v", o, err)
	}
	for _, wrong := range []map[string]string{{"full-pcpus-only": "perhaps"}, {"align-by-moon": "true"}} {
		if _, err := ParseOptions(wrong); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
	m := newManager(t, filepath.Join(t.TempDir(), "s"), o)
	for cpus, want := range map[string]string{
		"3":  "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
		"16": "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, CPUs per core = 2",
	} {
		if err := topologytest.Give(m, topologytest.PodOf("u", nil, asks("main", cpus))); err == nil || err.Error() != want {
			t.Errorf("%s CPUs: %v, want %s", cpus, err, want)
		}
	}
	if got := m.Of("other", "main").String(); got != "1-15" {
		t.Errorf("shared beside the reserved: %s", got)
	}
}

func TestHints(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"), Options{})
	hints := func(cpus string) string {
		c := asks("main", cpus)
		return fmt.Sprint(m.Hints(topologytest.PodOf("u", nil, c), &c)["cpu"])
	}
	if got := hints("2"); got != "[{3 false} {2 true} {1 true}]" {
		t.Error(got)
	}
	if got := hints("8"); got != "[{3 false} {2 true}]" { // one of the other node's is reserved
		t.Error(got)
	}
	if got := hints("16"); got != "[]" {
		t.Error(got)
	}
	if err := topologytest.Give(m, topologytest.PodOf("u", nil, asks("main", "2")), 1); err != nil {
		t.Fatal(err)
	}
	if got := hints("2"); got != "[{3 false} {2 true}]" { // what it has, it has
		t.Error(got)
	}
	c := asks("main", "500m")
	if got := m.Hints(topologytest.PodOf("v", nil, c), &c); got != nil {
		t.Errorf("who shares cares: %v", got)
	}
}

func TestAssignmentsOutliveTheAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpu_manager_state")
	m := newManager(t, path, Options{})
	if err := topologytest.Give(m, topologytest.PodOf("u", nil, asks("main", "2"))); err != nil {
		t.Fatal(err)
	}
	was := m.Of("u", "main")
	m = newManager(t, path, Options{})
	if got, ok := m.Own("u", "main"); !ok || !got.Equals(was) {
		t.Errorf("%s, was %s", got, was)
	}
	if err := CheckNone(path); err == nil || !strings.Contains(err.Error(), `configured policy "none" differs from state checkpoint policy "static", please drain this node`) {
		t.Error(err)
	}
	if _, err := New(Config{Machine: machine(), Reserved: was, State: path, Registerer: prometheus.NewRegistry()}); err == nil {
		t.Error("CPUs that are somebody's can be reserved")
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Machine: machine(), Reserved: cpuset.New(0), State: path, Registerer: prometheus.NewRegistry()}); err == nil {
		t.Error("a broken file is believed")
	}
	if err := CheckNone(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

// The keeper moves those that share when somebody gets CPUs for himself, and nobody twice.
func TestKeeper(t *testing.T) {
	runtime := fakecri.New()
	m := newManager(t, filepath.Join(t.TempDir(), "s"), Options{})
	k := NewKeeper(KeeperConfig{Runtime: runtime, CPUs: m, Every: time.Hour, Clock: clock.RealClock{}})
	m.cfg.Changed = k.Poke
	box, err := runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(uid, name string) {
		c, err := runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: box.GetPodSandboxId(), Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Labels: map[string]string{cri.LabelPodUID: uid, cri.LabelContainer: name},
		}})
		if err == nil {
			_, err = runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.GetContainerId()})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run("u", "shares")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	updates := func() []string {
		var out []string
		for _, call := range runtime.Calls() {
			if rest, ok := strings.CutPrefix(call, "UpdateContainerResources "); ok {
				out = append(out, rest)
			}
		}
		return out
	}
	await := func(want ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); fmt.Sprint(updates()) != fmt.Sprint(want); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("updates %q, want %q", updates(), want)
			}
		}
	}
	if err := topologytest.Give(m, topologytest.PodOf("v", nil, asks("main", "2")), 1); err != nil {
		t.Fatal(err)
	}
	await("shares cpu=0 memory=0 cpus=0,2-8,10-15")
	k.Poke()
	run("v", "main")
	k.Poke()
	await("shares cpu=0 memory=0 cpus=0,2-8,10-15", "main cpu=0 memory=0 cpus=1,9")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
