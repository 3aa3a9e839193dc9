package nodestatus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/fakecri"
	"howdah.dev/nodeagent/internal/pressure"
)

// machine is one made of files.
func machine(t *testing.T, files map[string]string) Machine {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"proc/meminfo": "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\n", "proc/loadavg": "0.1 0.1 0.1 2/300 1\n",
		"proc/sys/kernel/pid_max": "32768\n", "proc/sys/kernel/osrelease": "6.1\n", "proc/sys/kernel/random/boot_id": "boot\n",
		"etc/os-release": "NAME=x\nPRETTY_NAME=\"Test OS 1\"\n", "etc/machine-id": "machine\n",
	}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Machine{filepath.Join(dir, "proc"), filepath.Join(dir, "etc"), filepath.Join(dir, "sys"), dir, settings(t, pressure.DefaultHard)}
}

func settings(t *testing.T, hard string) pressure.Settings {
	t.Helper()
	out, err := pressure.Options{Hard: hard}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// enough says that the node is short of nothing.
func enough() pressure.Conditions { return pressure.Conditions{} }

func TestMachine(t *testing.T) {
	t.Parallel()
	m := machine(t, nil)
	capacity, allocatable, err := m.Capacity(110)
	if err != nil {
		t.Fatal(err)
	}
	if memory := capacity[corev1.ResourceMemory]; memory.Value() != 1<<30 {
		t.Errorf("memory %v", memory.String())
	}
	if memory := allocatable[corev1.ResourceMemory]; memory.Value() != 1<<30-100<<20 {
		t.Errorf("allocatable memory %v", memory.String())
	}
	if pods := capacity[corev1.ResourcePods]; pods.Value() != 110 {
		t.Errorf("pods %v", pods.String())
	}
	if info := m.Info(); info.OSImage != "Test OS 1" || info.MachineID != "machine" || info.KernelVersion != "6.1" || info.SystemUUID != "machine" {
		t.Errorf("info %v", info)
	}
	if swap := m.Info().Swap; swap != nil {
		t.Errorf("swap space %v", swap)
	}
	swapping := machine(t, map[string]string{"proc/meminfo": "MemTotal: 8 kB\nSwapTotal: 4 kB\n"})
	if swap := swapping.Info().Swap; swap == nil || *swap.Capacity != 4<<10 {
		t.Errorf("swap space %v of 4 kB", swap)
	}
	paged := machine(t, map[string]string{"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "4\n", "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n"})
	if capacity, allocatable, err = paged.Capacity(110); err != nil {
		t.Fatal(err)
	}
	memory, pages, none := allocatable[corev1.ResourceMemory], allocatable["hugepages-2Mi"], capacity["hugepages-1Gi"]
	if memory.Value() != 1<<30-100<<20-8<<20 || pages.String() != "8Mi" || none.String() != "0" || len(capacity) != 6 {
		t.Errorf("with huge pages: %v of %v", allocatable, capacity)
	}
	m.Settings = settings(t, "nodefs.available<25%")
	if capacity, allocatable, err = m.Capacity(1); err != nil {
		t.Fatal(err)
	}
	whole, rest := capacity[corev1.ResourceEphemeralStorage], allocatable[corev1.ResourceEphemeralStorage]
	if share := float64(rest.Value()) / float64(whole.Value()); share < 0.74 || share > 0.76 {
		t.Errorf("allocatable is %v of %v", rest.Value(), whole.Value())
	}
	if _, _, err := machine(t, map[string]string{"proc/meminfo": "nothing"}).Capacity(1); err == nil {
		t.Error("a machine without memory has a capacity")
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := Conditions([]corev1.NodeCondition{{Type: "x/own", Status: corev1.ConditionTrue}}, pressure.Conditions{}, nil, at)
	describe := func(list []corev1.NodeCondition) string {
		var out []string
		for _, c := range list {
			out = append(out, string(c.Type)+"="+string(c.Status)+" "+c.Reason+" "+c.Message)
		}
		return strings.Join(out, "\n")
	}
	want := `x/own=True  
MemoryPressure=False KubeletHasSufficientMemory kubelet has sufficient memory available
DiskPressure=False KubeletHasNoDiskPressure kubelet has no disk pressure
PIDPressure=False KubeletHasSufficientPID kubelet has sufficient PID available
Ready=True KubeletReady kubelet is posting ready status`
	if got := describe(first); got != want {
		t.Errorf("conditions:\n%s\nwant\n%s", got, want)
	}
	problems := engine{status: &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Reason: "NetworkPluginNotReady", Message: "no plugin"},
	}}}}.problems(at)
	second := Conditions(first, pressure.Conditions{Disk: true}, problems, at.Add(time.Minute))
	for _, want := range []string{
		"Ready=False KubeletNotReady container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no plugin",
		"DiskPressure=True KubeletHasDiskPressure kubelet has disk pressure",
	} {
		if !strings.Contains(describe(second), want) {
			t.Errorf("%q is not in\n%s", want, describe(second))
		}
	}
	for i, c := range second {
		if moved := c.LastTransitionTime.Time.After(at); moved != (c.Type == corev1.NodeReady || c.Type == corev1.NodeDiskPressure) {
			t.Errorf("condition %d (%s) moved: %v", i, c.Type, moved)
		}
	}
}

// A runtime that is started anew, or hangs for a moment, does not make the node unready; what it said before holds meanwhile.
func TestRuntimeWithoutAnswers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	runtime := fakecri.New()
	runtime.AddImage("docker.io/library/x:1")
	client := &cri.Client{Runtime: runtime, Images: runtime}
	known := engine{}.then(inquire(t.Context(), client, DefaultPace.Images), at)
	runtime.Fail("Status", errors.New("refused"))
	failed := inquire(t.Context(), client, DefaultPace.Images)
	never := engine{}.then(failed, at)
	if got := never.problems(at); len(got) != 1 || got[0] != "container runtime is down: refused" {
		t.Errorf("one that never answered: %q", got)
	}
	var s corev1.NodeStatus
	s.NodeInfo.ContainerRuntimeVersion = "old://1"
	if never.say(&s); s.NodeInfo.ContainerRuntimeVersion != "old://1" {
		t.Errorf("one that never answered is %s", s.NodeInfo.ContainerRuntimeVersion)
	}
	silent := known.then(failed, at.Add(time.Second))
	if got := silent.problems(at.Add(patience - 1)); len(got) != 0 {
		t.Errorf("for less than %v: %q", patience, got)
	}
	if got := silent.problems(at.Add(patience)); len(got) != 1 || got[0] != "container runtime is down: refused" {
		t.Errorf("after %v: %q", patience, got)
	}
	if silent.say(&s); s.NodeInfo.ContainerRuntimeVersion != "fake://1" || len(s.Images) != 1 {
		t.Errorf("it was %s with images %v", s.NodeInfo.ContainerRuntimeVersion, s.Images)
	}
	runtime.Fail("Status", nil)
	if got := silent.then(inquire(t.Context(), client, DefaultPace.Images), at.Add(time.Hour)).problems(at.Add(2 * time.Hour)); len(got) != 0 {
		t.Errorf("when it is back: %q", got)
	}
}

func TestReporter(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	runtime := fakecri.New()
	runtime.AddImage("docker.io/library/x:1")
	registry := prometheus.NewRegistry()
	var stopped atomic.Bool
	r := New(Config{
		Problems: func() []string {
			if stopped.Load() {
				return []string{"stopped"}
			}
			return nil
		},
		NodeName: "n", Labels: map[string]string{"zone": "a"}, Addresses: []string{"192.0.2.1"}, Port: 10250, AgentPort: 7443, Version: "v1.36.3", MaxPods: 110,
		Machine: machine(t, map[string]string{"proc/stat": "cpu 1 2\nbtime 1000\n"}), Client: client, Runtime: &cri.Client{Runtime: runtime, Images: runtime}, Clock: clock.RealClock{},
		Registerer: registry, Short: enough, Taints: []corev1.Taint{{Key: "waits", Effect: corev1.TaintEffectNoSchedule}},
	})
	if err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	node, err := object.For(client, object.Node).Get(t.Context(), "", "n")
	if err != nil {
		t.Fatal(err)
	}
	if node.Labels["kubernetes.io/hostname"] != "n" || node.Labels["zone"] != "a" || node.Status.NodeInfo.ContainerRuntimeVersion != "fake://1" ||
		node.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 || object.AgentPort(node) != 7443 || len(node.Status.Images) != 1 || !Ready(node) ||
		len(node.Spec.Taints) != 1 {
		t.Errorf("node: %s", node.String())
	}
	for _, step := range []string{"pre_kubelet_", "pre_registration_", "registration_", "post_registration_", ""} {
		if n, err := testutil.GatherAndCount(registry, "kubelet_node_startup_"+step+"duration_seconds"); n != 1 || err != nil {
			t.Errorf("the node is ready; %sduration is told %d times, %v", step, n, err)
		}
	}
	if r.Heard() {
		t.Error("the control plane has heard of a node that has no lease")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	wg.Go(func() { _ = r.RunLease(ctx) })
	defer func() {
		cancel()
		wg.Wait()
	}()
	within := func(what string, check func() bool) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for !check() {
			if time.Now().After(deadline) {
				t.Fatalf("never: %s", what)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	within("a lease", func() bool {
		lease, err := object.For(client, object.Lease).Get(t.Context(), corev1.NamespaceNodeLease, "n")
		return err == nil && *lease.Spec.HolderIdentity == "n" && *lease.Spec.LeaseDurationSeconds == 40 && lease.OwnerReferences[0].UID == node.UID
	})
	within("the node to know that it was heard", r.Heard)
	// Somebody advertises what no machine has.
	node.Status.Capacity["example.com/gpu"] = resource.MustParse("2")
	if node, err = object.For(client, object.Node).UpdateStatus(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	writes := api.Writes("nodes")
	r.Poke()
	stopped.Store(true)
	r.Poke()
	within("not ready", func() bool {
		node, err = object.For(client, object.Node).Get(t.Context(), "", "n")
		return err == nil && !Ready(node)
	})
	if gpus := node.Status.Allocatable["example.com/gpu"]; gpus.Value() != 2 || len(node.Status.Capacity) != 5 {
		t.Errorf("allocatable %v, capacity %v", node.Status.Allocatable, node.Status.Capacity)
	}
	stopped.Store(false)
	within("ready again", func() bool { // with the next look, a second later
		node, err = object.For(client, object.Node).Get(t.Context(), "", "n")
		return err == nil && Ready(node)
	})
	if now := api.Writes("nodes"); now != writes+2 {
		t.Errorf("%d writes for two changes", now-writes)
	}
}

// A controller says of a node that was cut off that nothing is known of it. What the node has to say is then as old as ever, and is told again all the same.
func TestWhatOthersSayIsAnswered(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	runtime, clock := fakecri.New(), clocktesting.NewFakeClock(time.Now())
	var events []string
	r := New(Config{
		NodeName: "n", Port: 10250, MaxPods: 110, Machine: machine(t, nil), Client: client, Runtime: &cri.Client{Runtime: runtime, Images: runtime}, Clock: clock, Short: enough,
		Event: func(_, reason, _ string) { events = append(events, reason) },
	})
	if err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes := object.For(client, object.Node)
	change := func(write func(context.Context, *corev1.Node) (*corev1.Node, error), what func(*corev1.Node)) *corev1.Node {
		t.Helper()
		node, err := nodes.Get(t.Context(), "", "n")
		if err != nil {
			t.Fatal(err)
		}
		node = node.DeepCopy()
		what(node)
		if node, err = write(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		return node
	}
	unknown := func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = corev1.ConditionUnknown
			}
		}
	}
	ready := func() bool {
		node, err := nodes.Get(t.Context(), "", "n")
		return err == nil && Ready(node)
	}
	poked := func() bool {
		select {
		case <-r.poke:
			return true
		default:
			return false
		}
	}
	known := r.Node()
	lost := change(nodes.UpdateStatus, unknown)
	if err := r.report(t.Context()); err != nil || ready() {
		t.Fatalf("it answers what it has not heard: %v", err)
	}
	clock.Step(retryPause)
	r.Observe(lost)
	r.Observe(known) // which is older
	if !poked() || r.Node() != lost {
		t.Fatal("it does not look at what is new")
	}
	if err := r.report(t.Context()); err != nil || !ready() {
		t.Errorf("the node is not ready again: %v", err)
	}
	r.Observe(r.Node()) // what it wrote itself comes back
	if poked() {
		t.Error("it looks at what it wrote")
	}
	r.Observe(change(nodes.UpdateStatus, unknown))
	if poked() {
		t.Error("it writes as often as another does")
	}
	if err := r.report(t.Context()); err != nil || !ready() { // with the next regular look
		t.Errorf("the node is not ready again: %v", err)
	}
	for _, cordoned := range []bool{true, false} {
		r.Observe(change(nodes.Update, func(node *corev1.Node) { node.Spec.Unschedulable = cordoned }))
		if err := r.report(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.Observe(change(nodes.Update, func(node *corev1.Node) { node.Labels[corev1.LabelOSStable], node.Labels["mine"] = "plan9", "too" }))
	if err := r.report(t.Context()); err != nil || r.Node().Labels[corev1.LabelOSStable] != "linux" || r.Node().Labels["mine"] != "too" {
		t.Errorf("the node bears the labels %v: %v", r.Node().Labels, err)
	}
	const began = "NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady"
	if got := strings.Join(events, " "); got != began+" NodeReady NodeReady NodeNotSchedulable NodeSchedulable" {
		t.Errorf("events: %s", got)
	}
}

func TestRegisterKeepsWhatOthersSaid(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	nodes := object.For(client, object.Node)
	old := &corev1.Node{}
	old.Name, old.Labels = "n", map[string]string{"mine": "yes", "kubernetes.io/os": "wrong"}
	old.Annotations = map[string]string{object.AgentPortAnnotation: "1", "mine": "too"} // of an agent that had an HTTPS endpoint
	old.Spec.PodCIDR, old.Spec.Unschedulable = "10.1.0.0/24", true
	if _, err := nodes.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	runtime := fakecri.New()
	r := New(Config{NodeName: "n", Port: 7443, MaxPods: 1, Machine: machine(t, nil), Client: client, Runtime: &cri.Client{Runtime: runtime, Images: runtime}, Clock: clock.RealClock{}, Short: enough})
	if err := r.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	node, err := nodes.Get(t.Context(), "", "n")
	if err != nil || object.AgentPort(node) != 7443 || len(node.Annotations) != 1 || node.Labels["mine"] != "yes" || node.Labels["kubernetes.io/os"] != "linux" || node.Spec.PodCIDR != "10.1.0.0/24" || !node.Spec.Unschedulable || !Ready(node) {
		t.Errorf("node: %v, %v", err, node)
	}
}

func TestRuntimeHandlers(t *testing.T) {
	t.Parallel()
	got := handlers([]*runtimeapi.RuntimeHandler{
		{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}, {Name: "other"},
		{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
	})
	if len(got) != 3 || got[0].Name != "" || got[1].Name != "other" || *got[1].Features.RecursiveReadOnlyMounts || !*got[0].Features.UserNamespaces || *got[1].Features.UserNamespaces {
		t.Fatalf("%+v", got)
	}
}

// What plugins have counts whatever the API has been told before, and what is reserved is missing from what pods may ask for.
func TestDevicesAndReservedCPUs(t *testing.T) {
	t.Parallel()
	runtime := fakecri.New()
	list := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"example.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	r := New(Config{
		NodeName: "n", MaxPods: 110, Machine: machine(t, nil), Runtime: &cri.Client{Runtime: runtime, Images: runtime}, Clock: clock.RealClock{}, Short: enough,
		Devices:  func() (capacity, allocatable corev1.ResourceList) { return list(2), list(1) },
		Reserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
	})
	s := r.status(&corev1.NodeStatus{Capacity: list(7), Allocatable: list(7)})
	all, usable := s.Capacity["example.com/gpu"], s.Allocatable["example.com/gpu"]
	if all.Value() != 2 || usable.Value() != 1 {
		t.Errorf("capacity %v, allocatable %v", s.Capacity, s.Allocatable)
	}
	if left := s.Capacity.Cpu().MilliValue() - s.Allocatable.Cpu().MilliValue(); left != 500 {
		t.Errorf("%d thousandths of a CPU are reserved", left)
	}
}
