package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/cgroup"
)

// node is a made-up one: two pods, one of them on the node's network, in made-up control groups.
type node struct {
	mu         sync.Mutex
	lists      int
	stats      int
	fail       error
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	groups     map[string]cgroup.Usage
	pods       map[string]*corev1.Pod
	mount      string
}

func labels(pod, uid, container string) map[string]string {
	l := map[string]string{"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.name": pod, "io.kubernetes.pod.uid": uid}
	if container != "" {
		l["io.kubernetes.container.name"] = container
	}
	return l
}

func (n *node) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lists++
	return &runtimeapi.ListPodSandboxResponse{Items: n.sandboxes}, n.fail
}

func (n *node) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: n.containers}, nil
}

func (n *node) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats++
	value := func(v uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: v} }
	return &runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{
		{Attributes: &runtimeapi.ContainerAttributes{Id: "c1"}, WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: 5, UsedBytes: value(77), InodesUsed: value(3)}},
		{Attributes: &runtimeapi.ContainerAttributes{Id: "c2"}, WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: value(0)},
			Cpu:    &runtimeapi.CpuUsage{Timestamp: 6, UsageCoreNanoSeconds: value(9e9), UsageNanoCores: value(8), Psi: &runtimeapi.PsiStats{Some: &runtimeapi.PsiData{Total: 5, Avg60: 0.5}}},
			Memory: &runtimeapi.MemoryUsage{Timestamp: 6, WorkingSetBytes: value(4096), UsageBytes: value(8192)}},
	}}, nil
}

func (n *node) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	one := &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: n.mount}, UsedBytes: &runtimeapi.UInt64Value{Value: 500}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{one}, ContainerFilesystems: []*runtimeapi.FilesystemUsage{one}}, nil
}

func (n *node) Path(p *corev1.Pod) string { return "/kubepods/pod" + string(p.UID) }

func (n *node) Read(path string) (cgroup.Usage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	u, ok := n.groups[path]
	if !ok {
		return u, os.ErrNotExist
	}
	return u, nil
}

func (n *node) Process(path string) (int, bool) { return 42, path == "/kubepods/podu1/s1" }

func (n *node) Processes(path string) []int {
	if path != "/kubepods/podu1/c1" {
		return nil
	}
	return []int{7, 8, 9}
}

func (n *node) use(path string, cpu time.Duration, memory uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.groups[path] = cgroup.Usage{CPU: &cgroup.CPU{Total: cpu}, Memory: &cgroup.Memory{Usage: memory, WorkingSet: memory}}
}

const netDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
vethabc:      9       9    0    0    0     0          0         0        9       9    0    0    0     0       0          0
  eth0:    1000      10    1    2    0     0          0         0     2000      20    3    4    0     0       0          0
`

func setup(t *testing.T) (*node, *Gatherer, *clocktesting.FakeClock) {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{
		"proc/net/dev": netDev, "proc/42/net/dev": netDev, "proc/uptime": "100.5 1\n", "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", "proc/loadavg": "0 0 0 1/77 1\n", "proc/sys/kernel/pid_max": "4096\n",
		"sys/dev/block/8:16/uevent":    "MAJOR=8\nMINOR=16\nDEVNAME=sdb\nDEVTYPE=disk\n",
		"proc/meminfo":                 "MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nSwapTotal: 8 kB\nSwapFree: 2 kB\n",
		"logs/ns_one_u1/main/0.log":    "12345",
		"logs/ns_one_u1/main/0.log.gz": "123",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	created := clk.Now().Add(-10 * time.Second).UnixNano()
	n := &node{mount: dir, groups: map[string]cgroup.Usage{}, pods: map[string]*corev1.Pod{}}
	n.sandboxes = []*runtimeapi.PodSandbox{
		{Id: "s2", CreatedAt: created, Labels: labels("two", "u2", "")}, {Id: "s0", CreatedAt: created - 1, Labels: labels("one", "u0", "")},
		{Id: "s1", CreatedAt: created, Labels: labels("one", "u1", "")}, {Id: "stranger", CreatedAt: created},
	}
	n.containers = []*runtimeapi.Container{
		{Id: "c1", PodSandboxId: "s1", CreatedAt: created, Labels: labels("one", "u1", "main"), Image: &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "web:1"}},
		{Id: "c2", PodSandboxId: "s2", CreatedAt: created, Labels: labels("two", "u2", "main"), Image: &runtimeapi.ImageSpec{Image: "x"}},
	}
	started := metav1.NewTime(clk.Now().Add(-20 * time.Second))
	n.pods["ns/one"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Status: corev1.PodStatus{StartTime: &started}}
	n.pods["ns/two"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u2"}, Spec: corev1.PodSpec{HostNetwork: true}}
	n.use("/", 100*time.Second, 300<<10)
	n.use("/kubepods", 50*time.Second, 200<<10)
	n.use("/kubepods/podu1", 4*time.Second, 2000)
	n.use("/kubepods/podu1/c1", 2*time.Second, 1000)
	g := New(Config{
		Runtime: n, Images: n, Groups: n, Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys"), RootDir: dir, LogDir: filepath.Join(dir, "logs"), Root: "/", Pods: "/kubepods", Clock: clk,
		Pod: func(namespace, name string) (*corev1.Pod, bool) { p, ok := n.pods[namespace+"/"+name]; return p, ok },
	})
	return n, g, clk
}

func TestReading(t *testing.T) {
	t.Parallel()
	_, g, _ := setup(t)
	r := g.Read(t.Context())
	if r.Err != nil || len(r.Pods) != 2 {
		t.Fatalf("%+v", r)
	}
	nd := r.Node
	if nd.CPU.Total != 100*time.Second || nd.Rate != nil || nd.Capacity != 1000<<10 || nd.Memory.WorkingSet != 300<<10 || nd.Swap.Usage != 6<<10 ||
		nd.MaxPIDs != 4096 || nd.Processes != 77 || nd.AllPods.CPU.Total != 50*time.Second || nd.Booted.Unix() != 999_899 {
		t.Errorf("node %+v %+v", nd, nd.Swap)
	}
	if fmt.Sprint(nd.Networks) != "[{eth0 1000 10 1 2 2000 20 3 4}]" {
		t.Errorf("networks %v", nd.Networks)
	}
	if nd.Disk == nil || nd.Disk.Capacity == 0 || nd.Images == nil || nd.Images.Used != 500 || nd.Images.ContainersUsed != 500 {
		t.Errorf("disks %+v %+v", nd.Disk, nd.Images)
	}
	one, two := r.Pods[0], r.Pods[1]
	if one.Name != "one" || one.UID != types.UID("u1") || one.Sandbox != "s1" || one.CPU.Total != 4*time.Second || len(one.Networks) != 2 || one.Started.Unix() != 999_980 {
		t.Errorf("pod %+v", one)
	}
	if c := one.Containers[0]; c.Name != "main" || c.Image != "web:1" || c.CPU.Total != 2*time.Second || c.Rootfs.Bytes != 77 || c.Logs.Bytes != 8 || c.Logs.Inodes != 2 ||
		c.Rate == nil || *c.Rate != 2e8 { // since it started, 10 s ago
		t.Errorf("container %+v %v", c, c.Rate)
	}
	if two.Containers[0].Rootfs != nil {
		t.Errorf("files that were not measured yet: %+v", two.Containers[0].Rootfs)
	}
	// The second pod's groups stand elsewhere: the runtime says what it uses.
	if c := two.Containers[0]; c.CPU.Total != 9*time.Second || c.Memory.WorkingSet != 4096 || *c.Rate != 8 || two.CPU.Total != 9*time.Second || two.Memory.Usage != 8192 || two.Networks != nil {
		t.Errorf("pod without a group %+v", two)
	}
}

// TestPressureOfWhat has the machine's where the node's group has none, and the runtime's where a container's group stands elsewhere.
func TestPressureOfWhat(t *testing.T) {
	t.Parallel()
	n, g, clk := setup(t)
	r := g.Read(t.Context())
	if p := r.Node.Pressures; p.CPU == nil || p.CPU.Some.Total != 9*time.Microsecond || p.Memory != nil || r.Node.AllPods.Pressures.CPU != nil {
		t.Errorf("the machine: %+v", p)
	}
	two := r.Pods[1]
	if p := two.Containers[0].Pressures; p.CPU == nil || p.CPU.Some.Total != 5 || p.CPU.Some.Avg60 != 0.5 || p.IO != nil || two.Pressures.CPU != nil {
		t.Errorf("by the runtime: %+v, and the pod %+v", p, two.Pressures)
	}
	n.groups["/"] = cgroup.Usage{Pressures: cgroup.Pressures{IO: &cgroup.Pressure{Some: cgroup.Stall{Total: 3}}}}
	clk.Step(Fresh)
	if p := g.Read(t.Context()).Node.Pressures; p.CPU != nil || p.IO.Some.Total != 3 {
		t.Errorf("the node's own: %+v", p)
	}
}

// TestDisksHaveTheirNames, by which dashboards choose them, where the kernel knows one.
func TestDisksHaveTheirNames(t *testing.T) {
	t.Parallel()
	n, g, _ := setup(t)
	n.groups["/kubepods/podu1/c1"] = cgroup.Usage{CPU: &cgroup.CPU{}, IO: []cgroup.IO{{Device: "8:16", ReadBytes: 1}, {Device: "0:40", ReadBytes: 2}}}
	io := g.Read(t.Context()).Pods[0].Containers[0].IO
	if len(io) != 2 || io[0].Device != "/dev/sdb" || io[1].Device != "0:40" {
		t.Errorf("disks %+v, want /dev/sdb and the number 0:40", io)
	}
}

func TestRatesAreOfTheTimeSinceTheLastReading(t *testing.T) {
	t.Parallel()
	n, g, clk := setup(t)
	g.Read(t.Context())
	clk.Step(4 * time.Second)
	n.use("/", 102*time.Second, 1)
	n.use("/kubepods/podu1/c1", 3*time.Second, 1)
	r := g.Read(t.Context())
	if *r.Node.Rate != 5e8 || *r.Pods[0].Containers[0].Rate != 25e7 {
		t.Errorf("rates %d, %d", *r.Node.Rate, *r.Pods[0].Containers[0].Rate)
	}
	clk.Step(4 * time.Second)
	n.use("/", time.Second, 1) // counted anew
	if r = g.Read(t.Context()); r.Node.Rate != nil || *r.Pods[0].Containers[0].Rate != 0 {
		t.Errorf("rates %v, %d", r.Node.Rate, *r.Pods[0].Containers[0].Rate)
	}
}

func TestManyShareAReading(t *testing.T) {
	t.Parallel()
	n, g, clk := setup(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if r := g.Read(gone); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	wg.Wait()
	if n.lists != 1 || n.stats != 1 {
		t.Errorf("%d lists, %d statistics for 50 at a time", n.lists, n.stats)
	}
	for range 4 { // 8 s later files are not looked at yet, 10 s later they are
		clk.Step(Fresh)
		g.Read(t.Context())
	}
	if n.lists != 5 || n.stats != 1 {
		t.Errorf("%d lists, %d statistics after 8 s", n.lists, n.stats)
	}
	clk.Step(Fresh)
	g.Read(t.Context())
	if n.stats != 2 {
		t.Errorf("%d statistics after 10 s", n.stats)
	}
	clk.Step(Fresh)
	n.containers = append(n.containers, &runtimeapi.Container{Id: "c3", PodSandboxId: "s1", Labels: labels("one", "u1", "new")})
	g.Read(t.Context())
	if n.stats != 3 {
		t.Errorf("%d statistics with a new container", n.stats)
	}
}

func TestWithoutTheRuntime(t *testing.T) {
	t.Parallel()
	n, g, clk := setup(t)
	n.fail = errors.New("away")
	r := g.Read(t.Context())
	if r.Err == nil || r.Node.CPU == nil || len(r.Pods) != 0 {
		t.Errorf("%+v", r)
	}
	n.fail = nil
	clk.Step(Fresh)
	if r = g.Read(t.Context()); r.Err != nil || len(r.Pods) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestOpened counts what processes have opened; the last of them has ended.
func TestOpened(t *testing.T) {
	t.Parallel()
	_, g, _ := setup(t)
	for link, target := range map[string]string{"7/fd/0": "/dev/null", "7/fd/1": "pipe:[1]", "7/fd/3": "socket:[5]", "8/fd/0": "socket:[6]"} {
		path := filepath.Join(g.cfg.Proc, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	limits := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(g.cfg.Proc, "7/limits"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]int64{
		"Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 4096                 files\n": 1024,
		"Max open files            unlimited            unlimited            files\n":                                                                            -1,
	} {
		limits(text)
		if o, ok := g.Opened("/kubepods/podu1/c1"); !ok || o.Descriptors != 4 || o.Sockets != 2 || o.MaxFiles == nil || *o.MaxFiles != want {
			t.Errorf("%+v %t", o, ok)
		}
	}
	limits("what is this")
	if o, _ := g.Opened("/kubepods/podu1/c1"); o.MaxFiles != nil {
		t.Errorf("a limit of %d", *o.MaxFiles)
	}
	if _, ok := g.Opened("/kubepods/podu1/none"); ok {
		t.Error("a group without processes has opened something")
	}
}
