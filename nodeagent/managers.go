package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"howdah.dev/nodeagent/internal/cpu"
	"howdah.dev/nodeagent/internal/memory"
	"howdah.dev/nodeagent/internal/topology"
)

// Managers say how single containers get CPUs and memory of NUMA nodes, and whether what they get has to be close together. The fields are those of a
// kubelet's configuration; by default nobody gets any.
type Managers struct {
	// CPUPolicy is none or static, with its options by name.
	CPUPolicy  string
	CPUOptions map[string]string
	// CPUEvery is how often the CPUs of running containers are looked at though nothing has changed; default 10 s.
	CPUEvery time.Duration
	// ReservedCPUs are the system's, as a list like 0,2-3.
	ReservedCPUs string
	// MemoryPolicy is None or Static.
	MemoryPolicy string
	// ReservedMemory is what of each NUMA node is the system's (NODE:KIND=SIZE).
	ReservedMemory []string
	// TopologyPolicy is none, best-effort, restricted or single-numa-node, TopologyScope container or pod.
	TopologyPolicy, TopologyScope string
	TopologyOptions               map[string]string
	// System is what the kernel tells of the machine; default /sys/devices/system.
	System fs.FS
}

// complete fills in the defaults.
func (m Managers) complete() Managers {
	for field, value := range map[*string]string{
		&m.CPUPolicy: cpu.None, &m.MemoryPolicy: memory.None, &m.TopologyPolicy: string(topology.None), &m.TopologyScope: string(topology.ScopeContainer),
	} {
		if *field == "" {
			*field = value
		}
	}
	if m.CPUEvery == 0 {
		m.CPUEvery = 10 * time.Second
	}
	if m.System == nil {
		m.System = os.DirFS("/sys/devices/system")
	}
	return m
}

// validate says what is wrong with them. reserved is what the node keeps for itself beside.
func (m Managers) validate(reserved corev1.ResourceList) error {
	var problems []error
	for what, c := range map[string]struct {
		set string
		of  []string
	}{
		"CPU manager":      {m.CPUPolicy, []string{cpu.None, cpu.Static}},
		"memory manager":   {m.MemoryPolicy, []string{memory.None, memory.Static}},
		"topology manager": {m.TopologyPolicy, []string{string(topology.None), string(topology.BestEffort), string(topology.Restricted), string(topology.SingleNode)}},
		"topology scope":   {m.TopologyScope, []string{string(topology.ScopeContainer), string(topology.ScopePod)}},
	} {
		if !slices.Contains(c.of, c.set) {
			problems = append(problems, fmt.Errorf("%s: %q is none of %v", what, c.set, c.of))
		}
	}
	_, err1 := cpu.ParseOptions(m.CPUOptions)
	if err1 == nil && len(m.CPUOptions) > 0 && m.CPUPolicy != cpu.Static {
		err1 = fmt.Errorf("the options %v of the CPU manager are those of the policy %s", slices.Sorted(maps.Keys(m.CPUOptions)), cpu.Static)
	}
	_, err2 := topology.ParseOptions(m.TopologyOptions)
	_, err3 := memory.ParseReserved(m.ReservedMemory)
	set, err4 := cpuset.Parse(m.ReservedCPUs)
	if err4 != nil {
		err4 = fmt.Errorf("reserved CPUs: %w", err4)
	}
	if err4 == nil && m.CPUPolicy == cpu.Static && set.IsEmpty() && reserved.Cpu().IsZero() {
		err4 = errors.New("the static policy of the CPU manager needs reserved CPUs: without any, nothing might be left to share")
	}
	if m.CPUEvery < 0 {
		problems = append(problems, fmt.Errorf("the CPU manager cannot look every %v", m.CPUEvery))
	}
	return errors.Join(append(problems, err1, err2, err3, err4)...)
}

// settings adds them to what /configz tells.
func (m Managers) settings(s map[string]any) {
	s["cpuManagerPolicy"], s["cpuManagerPolicyOptions"], s["cpuManagerReconcilePeriod"] = m.CPUPolicy, m.CPUOptions, m.CPUEvery.String()
	s["reservedSystemCPUs"], s["memoryManagerPolicy"] = m.ReservedCPUs, m.MemoryPolicy
	s["topologyManagerPolicy"], s["topologyManagerScope"], s["topologyManagerPolicyOptions"] = m.TopologyPolicy, m.TopologyScope, m.TopologyOptions
	var reserved []map[string]any
	all, _ := memory.ParseReserved(m.ReservedMemory)
	for _, node := range slices.Sorted(maps.Keys(all)) {
		limits := map[string]string{}
		for kind, size := range all[node] {
			limits[string(kind)] = resource.NewQuantity(size, resource.BinarySI).String()
		}
		reserved = append(reserved, map[string]any{"numaNode": node, "limits": limits})
	}
	s["reservedMemory"] = reserved
}

// reservedCPUs are the system's: those that are named, or else as many of the machine's as are reserved. The settings are valid.
func (m Managers) reservedCPUs(machine topology.Machine, reserved corev1.ResourceList) (cpuset.CPUSet, error) {
	set, err := cpuset.Parse(m.ReservedCPUs)
	if err != nil || !set.IsEmpty() {
		return set, err
	}
	return cpu.Reserve(machine, int(reserved.Cpu().Value())) // whole ones
}

// reserved are the CPUs that are named, nil where none are.
func (m Managers) reserved() corev1.ResourceList {
	set, _ := cpuset.Parse(m.ReservedCPUs)
	if set.IsEmpty() {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(set.Size()), resource.DecimalSI)}
}

// merger is the topology manager.
func (m Managers) merger(machine topology.Machine) (topology.Merger, error) {
	merger := topology.Merger{Policy: topology.Policy(m.TopologyPolicy), Nodes: machine.Nodes()}
	options, err := topology.ParseOptions(m.TopologyOptions)
	if err != nil || merger.Policy == topology.None {
		return merger, err
	}
	if n := merger.Nodes.Count(); n > options.MaxNodes {
		return merger, fmt.Errorf("topology manager: %d NUMA nodes are more than max-allowable-numa-nodes=%d", n, options.MaxNodes)
	}
	if options.PreferClosest {
		merger.Apart = machine.Apart
	}
	return merger, nil
}
