package usage

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
)

// Fresh is how old a reading may be that is handed out; what files take up is looked at less often.
const (
	Fresh      = 2 * time.Second
	filesEvery = 10 * time.Second
	// within bounds a reading.
	within = 8 * time.Second
)

// Runtime is what is asked of the container runtime.
type Runtime interface {
	ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error)
}

// Images tells what images take up.
type Images interface {
	ImageFsInfo(ctx context.Context, in *runtimeapi.ImageFsInfoRequest, opts ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error)
}

// Groups reads control groups.
type Groups interface {
	Path(pod *corev1.Pod) string
	Read(path string) (cgroup.Usage, error)
	Process(path string) (pid int, ok bool)
	Processes(path string) []int
}

// Config of a Gatherer.
type Config struct {
	Runtime Runtime
	Images  Images
	Groups  Groups
	// Pod returns a pod of this node as the API knows it.
	Pod func(namespace, name string) (*corev1.Pod, bool)
	// Volumes are what those of a pod took up when they were last measured.
	Volumes func(uid types.UID) []Volume
	// Proc is /proc, Sys is /sys; RootDir holds the pods' volumes, LogDir their logs.
	Proc, Sys, RootDir, LogDir string
	// Root is the group that is the node, Pods that of all pods.
	Root, Pods string
	Clock      clock.PassiveClock
}

// Gatherer makes readings. It is safe for concurrent use.
type Gatherer struct {
	cfg Config

	mu     sync.Mutex
	last   *Reading
	before map[string]total // by what was measured, at the last reading
	files  files

	placesMu sync.Mutex
	places   places
}

// total is the time that something had used at a moment.
type total struct {
	at   time.Time
	used time.Duration
}

// files is what files take up, by container.
type files struct {
	at     time.Time
	stats  map[string]*runtimeapi.ContainerStats
	logs   map[string]*Files
	images *Filesystem
}

// New returns a Gatherer; it reads nothing yet.
func New(cfg Config) *Gatherer { return &Gatherer{cfg: cfg, before: map[string]total{}} }

// Read returns a reading that is at most Fresh old. Those who ask at a time share one, which goes on where one of them gives up.
func (g *Gatherer) Read(ctx context.Context) *Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && g.cfg.Clock.Since(g.last.At) < Fresh {
		return g.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	g.last = g.read(ctx)
	return g.last
}

// read makes a reading. The caller holds mu.
func (g *Gatherer) read(ctx context.Context) *Reading {
	now := g.cfg.Clock.Now()
	seen := map[string]total{}
	r := &Reading{At: now, Node: g.node(seen)}
	r.Pods, r.Err = g.pods(ctx, seen)
	if g.files.images != nil {
		images := *g.files.images
		images.Device = device(g.cfg.Sys, images.Device)
		r.Node.Images = &images
	}
	g.before = seen
	return r
}

func (g *Gatherer) node(seen map[string]total) Node {
	now := g.cfg.Clock.Now()
	n := Node{Booted: booted(g.cfg.Proc, now)}
	n.Measured, _ = g.measure(g.cfg.Root, "node", time.Time{}, seen)
	n.AllPods, _ = g.measure(g.cfg.Pods, "pods", time.Time{}, seen)
	var whole *cgroup.Memory
	var swap *cgroup.Swap
	n.Capacity, whole, swap = machineMemory(g.cfg.Proc)
	if n.Memory == nil {
		n.Memory = whole
	}
	if n.Swap == nil {
		n.Swap = swap
	}
	if n.Pressures == (cgroup.Pressures{}) { // groups of version 1 have none, the machine may
		n.Pressures = cgroup.MachinePressures(g.cfg.Proc)
	}
	left := g.left(n.Capacity, n.Memory).Available
	n.MemoryLeft = &left
	if limit := n.Memory; limit != nil && limit.Limit > 0 {
		n.Capacity = min(n.Capacity, limit.Limit)
	}
	if all, err := interfaces(filepath.Join(g.cfg.Proc, "net/dev")); err == nil {
		n.Networks = firstInterface(all, defaultRoute(g.cfg.Proc))
	}
	if disk, err := StatFilesystem(g.cfg.RootDir, now); err == nil { // a disk that does not answer is told by the node's conditions
		disk.Device = device(g.cfg.Sys, disk.Device)
		n.Disk = disk
	}
	n.MaxPIDs, n.Processes = processes(g.cfg.Proc)
	return n
}

// measure reads a group. key names it for the rate, which is counted from the last reading, or from since.
func (g *Gatherer) measure(group, key string, since time.Time, seen map[string]total) (Measured, error) {
	u, err := g.cfg.Groups.Read(group)
	m := Measured{Usage: u, At: g.cfg.Clock.Now()}
	for i := range m.IO {
		m.IO[i].Device = device(g.cfg.Sys, m.IO[i].Device)
	}
	if err == nil {
		g.rate(&m, key, since, seen)
	}
	return m, err
}

// rate fills in how fast time is used.
func (g *Gatherer) rate(m *Measured, key string, since time.Time, seen map[string]total) {
	if m.CPU == nil {
		return
	}
	seen[key] = total{m.At, m.CPU.Total}
	last, ok := g.before[key]
	if !ok && !since.IsZero() {
		last, ok = total{at: since}, true
	}
	span := m.At.Sub(last.at)
	if !ok || span <= 0 || m.CPU.Total < last.used {
		return
	}
	rate := uint64(float64(m.CPU.Total-last.used) / span.Seconds())
	m.Rate = &rate
}

// pods reads all pods whose sandboxes are ready.
func (g *Gatherer) pods(ctx context.Context, seen map[string]total) ([]Pod, error) {
	sandboxes, err := g.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := g.cfg.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	inside := map[string][]*runtimeapi.Container{}
	for _, c := range containers.GetContainers() {
		inside[c.GetPodSandboxId()] = append(inside[c.GetPodSandboxId()], c)
	}
	problem := g.look(ctx, sandboxes.GetItems(), inside)
	var out []Pod
	for _, s := range newest(sandboxes.GetItems()) {
		out = append(out, g.pod(s, inside[s.GetId()], seen))
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, problem
}

// newest are the pods' sandboxes, one of a name: a pod that is ending may have a successor already, and metrics know pods by name.
func newest(all []*runtimeapi.PodSandbox) map[types.NamespacedName]*runtimeapi.PodSandbox {
	out := map[types.NamespacedName]*runtimeapi.PodSandbox{}
	for _, s := range all {
		labels := s.GetLabels()
		key := types.NamespacedName{Namespace: labels[cri.LabelPodNamespace], Name: labels[cri.LabelPodName]}
		if labels[cri.LabelPodUID] != "" && out[key].GetCreatedAt() <= s.GetCreatedAt() {
			out[key] = s
		}
	}
	return out
}

func (g *Gatherer) pod(s *runtimeapi.PodSandbox, containers []*runtimeapi.Container, seen map[string]total) Pod {
	p := Pod{
		Namespace: s.GetLabels()[cri.LabelPodNamespace], Name: s.GetLabels()[cri.LabelPodName], UID: types.UID(s.GetLabels()[cri.LabelPodUID]),
		Started: time.Unix(0, s.GetCreatedAt()), Sandbox: s.GetId(),
	}
	known, ok := g.cfg.Pod(p.Namespace, p.Name)
	ok = ok && known.UID == p.UID
	if ok {
		p.Group = g.cfg.Groups.Path(known)
		if known.Status.StartTime != nil {
			p.Started = known.Status.StartTime.Time
		}
		p.Measured, _ = g.measure(p.Group, "pod "+string(p.UID), p.Started, seen)
		if g.cfg.Volumes != nil {
			p.Volumes = g.cfg.Volumes(p.UID)
		}
	}
	for _, c := range containers {
		p.Containers = append(p.Containers, g.container(c, p.Group, seen))
	}
	slices.SortFunc(p.Containers, func(a, b Container) int { return cmp.Or(strings.Compare(a.Name, b.Name), b.Started.Compare(a.Started)) })
	p.Containers = slices.CompactFunc(p.Containers, func(a, b Container) bool { return a.Name == b.Name }) // the newest run
	if p.Measured.CPU == nil && p.Measured.Memory == nil {                                                 // no group of its own: what its containers use together
		p.Measured = together(p.Containers)
	}
	if ok && !known.Spec.HostNetwork {
		if pid, there := g.cfg.Groups.Process(filepath.Join(p.Group, p.Sandbox)); there {
			p.Networks, _ = interfaces(filepath.Join(g.cfg.Proc, strconv.Itoa(pid), "net/dev")) // the sandbox may have ended
		}
	}
	return p
}

func (g *Gatherer) container(c *runtimeapi.Container, pod string, seen map[string]total) Container {
	out := Container{Name: c.GetLabels()[cri.LabelContainer], ID: c.GetId(), Image: imageOf(c), Started: time.Unix(0, c.GetCreatedAt())}
	if pod != "" {
		out.Group = filepath.Join(pod, out.ID)
		out.Measured, _ = g.measure(out.Group, out.ID, out.Started, seen)
	}
	stats := g.files.stats[out.ID]
	if out.CPU == nil && out.Memory == nil { // its group stands elsewhere, or is another runtime's secret
		out.Measured = told(stats)
	}
	if layer := stats.GetWritableLayer(); layer.GetTimestamp() != 0 { // which the runtime has measured
		out.Rootfs = &Files{At: time.Unix(0, layer.GetTimestamp()), Bytes: layer.GetUsedBytes().GetValue(), Inodes: layer.GetInodesUsed().GetValue()}
	}
	out.Logs = g.files.logs[out.ID]
	return out
}

// imageOf prefers the name that was asked for.
func imageOf(c *runtimeapi.Container) string {
	if asked := c.GetImage().GetUserSpecifiedImage(); asked != "" {
		return asked
	}
	return c.GetImage().GetImage()
}

// told is what the runtime says of a container's usage.
func told(s *runtimeapi.ContainerStats) Measured {
	var m Measured
	if c := s.GetCpu(); c.GetUsageCoreNanoSeconds() != nil {
		m.At, m.CPU = time.Unix(0, c.GetTimestamp()), &cgroup.CPU{Total: time.Duration(c.GetUsageCoreNanoSeconds().GetValue())}
		if c.GetUsageNanoCores() != nil {
			rate := c.GetUsageNanoCores().GetValue()
			m.Rate = &rate
		}
	}
	if c := s.GetMemory(); c.GetWorkingSetBytes() != nil {
		m.At = time.Unix(0, c.GetTimestamp())
		m.Memory = &cgroup.Memory{
			Usage: c.GetUsageBytes().GetValue(), WorkingSet: c.GetWorkingSetBytes().GetValue(), RSS: c.GetRssBytes().GetValue(),
			Faults: c.GetPageFaults().GetValue(), MajorFaults: c.GetMajorPageFaults().GetValue(),
		}
	}
	m.Pressures = cgroup.Pressures{CPU: toldPressure(s.GetCpu().GetPsi()), Memory: toldPressure(s.GetMemory().GetPsi()), IO: toldPressure(s.GetIo().GetPsi())}
	if c := s.GetSwap(); c.GetSwapUsageBytes() != nil {
		m.Swap = &cgroup.Swap{Usage: c.GetSwapUsageBytes().GetValue(), Limit: c.GetSwapUsageBytes().GetValue() + c.GetSwapAvailableBytes().GetValue()}
	}
	return m
}

func toldPressure(p *runtimeapi.PsiStats) *cgroup.Pressure {
	if p.GetSome() == nil {
		return nil
	}
	stall := func(d *runtimeapi.PsiData) cgroup.Stall {
		return cgroup.Stall{Total: time.Duration(d.GetTotal()), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
	}
	return &cgroup.Pressure{Some: stall(p.GetSome()), Full: stall(p.GetFull())}
}

// together adds up containers. How long they have waited cannot be added up: they may have waited at a time.
func together(all []Container) Measured {
	var m Measured
	for _, c := range all {
		if c.At.After(m.At) {
			m.At = c.At
		}
		if c.CPU != nil {
			if m.CPU == nil {
				m.CPU = &cgroup.CPU{}
			}
			m.CPU.Total += c.CPU.Total
		}
		if c.Memory != nil {
			if m.Memory == nil {
				m.Memory = &cgroup.Memory{}
			}
			m.Memory.Usage += c.Memory.Usage
			m.Memory.WorkingSet += c.Memory.WorkingSet
			m.Memory.RSS += c.Memory.RSS
			m.Memory.Faults += c.Memory.Faults
			m.Memory.MajorFaults += c.Memory.MajorFaults
		}
		if c.Rate != nil {
			if m.Rate == nil {
				m.Rate = new(uint64)
			}
			*m.Rate += *c.Rate
		}
	}
	return m
}

// look brings what files take up up to date, where it is old or of a container nothing is known.
func (g *Gatherer) look(ctx context.Context, sandboxes []*runtimeapi.PodSandbox, inside map[string][]*runtimeapi.Container) error {
	now := g.cfg.Clock.Now()
	if !g.files.at.IsZero() && now.Sub(g.files.at) < filesEvery && g.knowsAll(inside) {
		return nil
	}
	stats, err := g.cfg.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return fmt.Errorf("list statistics of containers: %w", err)
	}
	next := files{at: now, stats: map[string]*runtimeapi.ContainerStats{}, logs: map[string]*Files{}}
	for _, s := range stats.GetStats() {
		next.stats[s.GetAttributes().GetId()] = s
	}
	for _, s := range sandboxes {
		labels := s.GetLabels()
		dir := container.LogDirectory(g.cfg.LogDir, labels[cri.LabelPodNamespace], labels[cri.LabelPodName], labels[cri.LabelPodUID])
		for _, c := range inside[s.GetId()] {
			next.logs[c.GetId()] = logs(filepath.Join(dir, c.GetLabels()[cri.LabelContainer]), now)
		}
	}
	images, err := g.cfg.Images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return fmt.Errorf("file system of images: %w", err)
	}
	next.images = imageFilesystem(images, now)
	g.files = next
	return nil
}

// knowsAll reports whether all containers were there at the last look; one that has begun since is looked at after a reading's time at
// the earliest.
func (g *Gatherer) knowsAll(inside map[string][]*runtimeapi.Container) bool {
	for _, containers := range inside {
		for _, c := range containers {
			if g.files.logs[c.GetId()] == nil {
				return false
			}
		}
	}
	return true
}

// logs adds up a container's log files.
func logs(dir string, now time.Time) *Files {
	out := &Files{At: now}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			out.Bytes += uint64(info.Size())
			out.Inodes++
		}
	}
	return out
}

func imageFilesystem(info *runtimeapi.ImageFsInfoResponse, now time.Time) *Filesystem {
	if len(info.GetImageFilesystems()) == 0 {
		return nil
	}
	first := info.GetImageFilesystems()[0]
	f, err := StatFilesystem(first.GetFsId().GetMountpoint(), now)
	if err != nil {
		return nil
	}
	f.Used, f.InodesUsed = first.GetUsedBytes().GetValue(), first.GetInodesUsed().GetValue()
	for _, c := range info.GetContainerFilesystems() {
		f.ContainersUsed += c.GetUsedBytes().GetValue()
		f.ContainersInodes += c.GetInodesUsed().GetValue()
	}
	return f
}
