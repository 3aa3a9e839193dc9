package topology

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Machine is what a machine is made of, as far as it matters to whom it is given.
type Machine struct {
	CPUs []CPU // that are online, by number
	Node map[int]Node
}

// CPU is one that the kernel schedules: a thread of a core of a socket. Core counts all cores of the machine.
type CPU struct{ ID, Core, Socket, Node int }

// Node is a NUMA node.
type Node struct {
	Memory int64 // in bytes
	// Pages is how many huge pages it has, by their size in bytes.
	Pages map[int64]int64
	// Distance is how far it is to the nodes, by number.
	Distance []int
}

// ReadMachine reads /sys/devices/system. A machine without NUMA has one node.
func ReadMachine(system fs.FS) (Machine, error) {
	m := Machine{Node: map[int]Node{}}
	online, err := readSet(system, "cpu/online")
	if err != nil {
		return m, err
	}
	home := map[int]int{}
	folders, err := fs.Glob(system, "node/node[0-9]*")
	if err != nil {
		return m, err
	}
	for _, folder := range folders {
		id, err := strconv.Atoi(strings.TrimPrefix(path.Base(folder), "node"))
		if err != nil {
			continue
		}
		cpus, err := readSet(system, folder+"/cpulist")
		if err != nil {
			return m, err
		}
		for _, cpu := range cpus.UnsortedList() {
			home[cpu] = id
		}
		if m.Node[id], err = readNode(system, folder); err != nil {
			return m, err
		}
	}
	if len(m.Node) == 0 {
		m.Node[0] = Node{}
	}
	cores := map[[2]int]int{} // the least CPU of each is its number
	for _, cpu := range online.List() {
		folder := fmt.Sprintf("cpu/cpu%d/topology/", cpu)
		socket, err := readInt(system, folder+"physical_package_id")
		if err != nil {
			return m, err
		}
		core, err := readInt(system, folder+"core_id")
		if err != nil {
			return m, err
		}
		at := [2]int{socket, core}
		if _, seen := cores[at]; !seen {
			cores[at] = cpu
		}
		m.CPUs = append(m.CPUs, CPU{ID: cpu, Core: cores[at], Socket: max(socket, 0), Node: home[cpu]})
	}
	return m, nil
}

func readNode(system fs.FS, folder string) (Node, error) {
	n := Node{Pages: map[int64]int64{}}
	info, err := fs.ReadFile(system, folder+"/meminfo")
	if err != nil {
		return n, err
	}
	for line := range strings.Lines(string(info)) { // Node 0 MemTotal:  123 kB
		if fields := strings.Fields(line); len(fields) >= 4 && fields[2] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[3], 10, 64)
			if err != nil {
				return n, fmt.Errorf("%s/meminfo: %w", folder, err)
			}
			n.Memory = kib << 10
		}
	}
	if distances, err := fs.ReadFile(system, folder+"/distance"); err == nil {
		for _, word := range strings.Fields(string(distances)) {
			d, err := strconv.Atoi(word)
			if err != nil {
				return n, fmt.Errorf("%s/distance: %w", folder, err)
			}
			n.Distance = append(n.Distance, d)
		}
	}
	sizes, err := fs.Glob(system, folder+"/hugepages/hugepages-*kB")
	if err != nil {
		return n, err
	}
	for _, size := range sizes {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(path.Base(size), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			return n, err
		}
		count, err := readInt(system, size+"/nr_hugepages")
		if err != nil {
			return n, err
		}
		n.Pages[kib<<10] = int64(count)
	}
	return n, nil
}

func readSet(system fs.FS, name string) (cpuset.CPUSet, error) {
	raw, err := fs.ReadFile(system, name)
	if err != nil {
		return cpuset.CPUSet{}, err
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(raw)))
	if err != nil {
		return set, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

func readInt(system fs.FS, name string) (int, error) {
	raw, err := fs.ReadFile(system, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// Nodes are the machine's NUMA nodes.
func (m Machine) Nodes() Mask { return Of(slices.Collect(maps.Keys(m.Node))...) }

// All are the machine's CPUs.
func (m Machine) All() cpuset.CPUSet {
	return m.Which(func(CPU) bool { return true })
}

// On are the CPUs of some nodes.
func (m Machine) On(nodes Mask) cpuset.CPUSet {
	return m.Which(func(c CPU) bool { return nodes.Has(c.Node) })
}

// Which are the CPUs of which something is true.
func (m Machine) Which(is func(CPU) bool) cpuset.CPUSet {
	var out []int
	for _, c := range m.CPUs {
		if is(c) {
			out = append(out, c.ID)
		}
	}
	return cpuset.New(out...)
}

// Threads is how many CPUs a core has.
func (m Machine) Threads() int {
	cores := map[int]int{}
	for _, c := range m.CPUs {
		cores[c.Core]++
	}
	most := 1
	for _, n := range cores {
		most = max(most, n)
	}
	return most
}

// Apart is how far the nodes of a set are from each other on average, each from itself too.
func (m Machine) Apart(set Mask) float64 {
	sum, n := 0, 0
	for _, a := range set.Nodes() {
		for _, b := range set.Nodes() {
			if d := m.Node[a].Distance; b < len(d) {
				sum += d[b]
			}
			n++
		}
	}
	return float64(sum) / float64(cmp.Or(n, 1))
}
