package nodeagent

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"howdah.dev/kit/podspec"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/assign"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cpu"
	"howdah.dev/nodeagent/internal/device"
	"howdah.dev/nodeagent/internal/dra"
	"howdah.dev/nodeagent/internal/memory"
	"howdah.dev/nodeagent/internal/podresources"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/topology"
)

// resources are what the node has for single containers.
type resources struct {
	*assign.Assigner
	devices *device.Manager
	cpus    *cpu.Manager    // nil where nobody gets any
	keeper  *cpu.Keeper     // nil like cpus
	memory  *memory.Manager // nil where nobody gets any
	claims  *dra.Manager
	server  *podresources.Server
}

// newResources builds those who hand them out.
func (a *Agent) newResources(thresholds pressure.Settings) (*resources, error) {
	cfg, r := a.cfg, &resources{}
	r.devices = device.New(device.Config{
		Dir: filepath.Join(cfg.KubeletDir, "device-plugins"), Clock: cfg.Clock, Registerer: cfg.Registerer,
		Changed: func(holders []types.UID) {
			a.reporter.Poke()
			for _, uid := range holders {
				a.workers.Wake(uid)
			}
		},
	})
	providers := []assign.Provider{r.devices}
	var machine topology.Machine
	var aligned *topology.Aligned
	m := cfg.Managers
	if m.CPUPolicy != cpu.None || m.MemoryPolicy != memory.None || m.TopologyPolicy != string(topology.None) {
		var err error
		if machine, err = topology.ReadMachine(m.System); err != nil {
			return nil, fmt.Errorf("look at the machine's CPUs: %w", err)
		}
		aligned = topology.NewAligned(cfg.Registerer)
	}
	if err := r.addCPUs(a, machine, aligned); err != nil {
		return nil, err
	}
	if r.cpus != nil {
		providers = append(providers, r.cpus)
	}
	if err := r.addMemory(a, machine, thresholds); err != nil {
		return nil, err
	}
	if r.memory != nil {
		providers = append(providers, r.memory)
	}
	merger, err := m.merger(machine)
	if err != nil {
		return nil, err
	}
	r.Assigner = assign.New(assign.Config{
		Providers: providers, Topology: merger, Scope: topology.Scope(m.TopologyScope), Clock: cfg.Clock, Registerer: cfg.Registerer, Aligned: aligned,
	})
	if r.claims, err = dra.New(dra.Config{
		NodeName: cfg.NodeName, Client: cfg.Objects, State: filepath.Join(cfg.RootDir, "dra_manager_state"), Here: a.here, Clock: cfg.Clock, Registerer: cfg.Registerer,
		Changed: func(pods []types.UID) {
			for _, uid := range pods {
				a.workers.Wake(uid)
			}
		},
	}); err != nil {
		return nil, err
	}
	r.server = podresources.New(podresources.Config{
		Dir: filepath.Join(cfg.KubeletDir, "pod-resources"), Pods: func() []*corev1.Pod { return a.running.List() }, Assigned: r, Registerer: cfg.Registerer,
	})
	return r, nil
}

func (r *resources) addCPUs(a *Agent, machine topology.Machine, aligned *topology.Aligned) error {
	m, path := a.cfg.Managers, filepath.Join(a.cfg.RootDir, "cpu_manager_state")
	if m.CPUPolicy == cpu.None {
		return cpu.CheckNone(path)
	}
	options, err1 := cpu.ParseOptions(m.CPUOptions)
	reserved, err2 := m.reservedCPUs(machine, a.cfg.Reserve.Total())
	if err1 != nil || err2 != nil {
		return fmt.Errorf("CPU manager: %w, %w", err1, err2) // the configuration was checked before
	}
	var err error
	r.cpus, err = cpu.New(cpu.Config{
		Machine: machine, Reserved: reserved, Options: options, State: path, Registerer: a.cfg.Registerer, Aligned: aligned, Changed: func() { r.keeper.Poke() },
	})
	r.keeper = cpu.NewKeeper(cpu.KeeperConfig{Runtime: a.runtime.Runtime, CPUs: r.cpus, Every: m.CPUEvery, Clock: a.cfg.Clock})
	return err
}

func (r *resources) addMemory(a *Agent, machine topology.Machine, thresholds pressure.Settings) error {
	m, path := a.cfg.Managers, filepath.Join(a.cfg.RootDir, "memory_manager_state")
	if m.MemoryPolicy == memory.None {
		return memory.CheckNone(path)
	}
	reserved, err := memory.ParseReserved(m.ReservedMemory)
	if err != nil {
		return err
	}
	var whole int64
	for _, node := range machine.Node {
		whole += node.Memory
	}
	kept := a.cfg.Reserve.Total()
	if err := reserved.Check(machine.Nodes(), thresholds.Reserved(pressure.MemoryAvailable, whole)+kept.Memory().Value()); err != nil {
		return err
	}
	r.memory, err = memory.New(memory.Config{Machine: machine, Reserved: reserved, State: path, Registerer: a.cfg.Registerer})
	return err
}

// Run serves whoever has devices, or asks who has them.
func (r *resources) Run(ctx context.Context) error {
	parts := []task.Func{r.devices.Run, r.server.Run}
	if r.keeper != nil {
		parts = append(parts, r.keeper.Run)
	}
	return task.Run(ctx, parts...)
}

// Own returns what a container has.
func (r *resources) Own(ctx context.Context, p *corev1.Pod, c *corev1.Container) (container.Own, error) {
	answers, err := r.devices.Prepare(ctx, p, c)
	if err != nil {
		return container.Own{}, fmt.Errorf("devices: %w", err)
	}
	own := assign.ForDevices(answers)
	if r.cpus != nil {
		own.CPUs = r.cpus.Of(p.UID, c.Name).String()
		_, own.Unthrottled = r.cpus.Own(p.UID, c.Name)
	}
	if r.memory != nil {
		own.Memory = r.memory.Nodes(p.UID, c.Name)
	}
	claimed, err := r.claims.CDI(p, c)
	if err != nil {
		return container.Own{}, err
	}
	own.AddCDI(claimed)
	return own, nil
}

// health tells how the devices of a container are.
func (r *resources) health(p *corev1.Pod, name string) []corev1.ResourceStatus {
	out := r.devices.Health(p.UID, name)
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == name {
			out = append(out, r.claims.Health(p, c)...)
		}
	}
	return out
}

// unthrottled reports whether containers of a pod have CPUs for themselves, so that its time on them is not to be counted.
func (r *resources) unthrottled(p *corev1.Pod) bool {
	return r.cpus != nil && r.cpus.Holds(p.UID)
}

// fixed says why a pod cannot get other resources while it runs, "" where it can, and Kubernetes' short name for that.
func (r *resources) fixed(p *corev1.Pod) (why, short string) {
	switch {
	case podspec.QOSClass(p) != corev1.PodQOSGuaranteed:
		return "", ""
	case r.cpus != nil:
		return "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy", "guaranteed_pod_cpu_manager_static_policy"
	case r.memory != nil:
		return "Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy", "guaranteed_pod_memory_manager_static_policy"
	}
	return "", ""
}

// on is a node that has at least what was given away: while a plugin is away it tells of less.
func (r *resources) on(node *corev1.Node) *corev1.Node {
	var out *corev1.Node
	for name, held := range r.devices.Held() {
		if has, told := node.Status.Allocatable[name]; !told || has.Cmp(held) >= 0 {
			continue
		}
		if out == nil {
			out = node.DeepCopy()
		}
		out.Status.Allocatable[name] = held
	}
	if out == nil {
		return node
	}
	return out
}

// forget takes back what pods had that are not here any more.
func (r *resources) forget(here func(types.UID) bool) {
	holders := r.devices.Holders()
	if r.cpus != nil {
		holders = append(holders, r.cpus.Holders()...)
	}
	if r.memory != nil {
		holders = append(holders, r.memory.Holders()...)
	}
	for _, uid := range holders {
		if !here(uid) {
			r.Release(uid)
		}
	}
}

// Of tells what a container has for itself.
func (r *resources) Of(p *corev1.Pod, c *corev1.Container) *podresourcesapi.ContainerResources {
	uid, name := p.UID, c.Name
	out := &podresourcesapi.ContainerResources{Devices: deviceRows(r.devices.Of(uid, name)), DynamicResources: r.claims.Of(p, c)}
	if r.cpus != nil {
		if own, has := r.cpus.Own(uid, name); has {
			out.CpuIds = numbers(own)
		}
	}
	if r.memory != nil {
		out.Memory = memoryRows(r.memory.Of(uid, name))
	}
	return out
}

// All tells what containers may have for themselves.
func (r *resources) All() *podresourcesapi.AllocatableResourcesResponse {
	out := &podresourcesapi.AllocatableResourcesResponse{Devices: deviceRows(r.devices.All())}
	if r.cpus != nil {
		out.CpuIds = numbers(r.cpus.Allocatable())
	}
	if r.memory != nil {
		out.Memory = memoryRows(r.memory.All())
	}
	return out
}

func deviceRows(list []device.Devices) []*podresourcesapi.ContainerDevices {
	var out []*podresourcesapi.ContainerDevices
	for _, d := range list {
		row := &podresourcesapi.ContainerDevices{ResourceName: d.Resource, DeviceIds: d.IDs}
		if len(d.Nodes) > 0 {
			row.Topology = nodeRows(d.Nodes...)
		}
		out = append(out, row)
	}
	return out
}

func memoryRows(list []memory.Block) []*podresourcesapi.ContainerMemory {
	var out []*podresourcesapi.ContainerMemory
	for _, b := range list {
		var nodes []int64
		for _, n := range b.Nodes.Nodes() {
			nodes = append(nodes, int64(n))
		}
		out = append(out, &podresourcesapi.ContainerMemory{MemoryType: string(b.Kind), Size: uint64(max(b.Size, 0)), Topology: nodeRows(nodes...)})
	}
	return out
}

func nodeRows(nodes ...int64) *podresourcesapi.TopologyInfo {
	out := &podresourcesapi.TopologyInfo{}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, &podresourcesapi.NUMANode{ID: n})
	}
	return out
}

func numbers(set cpuset.CPUSet) []int64 {
	var out []int64
	for _, id := range set.List() {
		out = append(out, int64(id))
	}
	return out
}
