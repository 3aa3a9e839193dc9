package topology

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// system is /sys/devices/system of a machine whose CPUs are given by socket and core: two nodes, as many as there are sockets.
func system(cpus [][2]int) fstest.MapFS {
	files := fstest.MapFS{"cpu/online": {Data: fmt.Appendf(nil, "0-%d\n", len(cpus)-1)}}
	lists := map[int]string{}
	for id, at := range cpus {
		folder := fmt.Sprintf("cpu/cpu%d/topology/", id)
		files[folder+"physical_package_id"] = &fstest.MapFile{Data: fmt.Appendln(nil, at[0])}
		files[folder+"core_id"] = &fstest.MapFile{Data: fmt.Appendln(nil, at[1])}
		if lists[at[0]] != "" {
			lists[at[0]] += ","
		}
		lists[at[0]] += fmt.Sprint(id)
	}
	for node, list := range lists {
		folder := fmt.Sprintf("node/node%d/", node)
		files[folder+"cpulist"] = &fstest.MapFile{Data: []byte(list + "\n")}
		files[folder+"meminfo"] = &fstest.MapFile{Data: fmt.Appendf(nil, "Node %d MemTotal:       1024 kB\nNode %d MemFree: 1 kB\n", node, node)}
		files[folder+"distance"] = &fstest.MapFile{Data: []byte("10 21\n")}
		files[folder+"hugepages/hugepages-2048kB/nr_hugepages"] = &fstest.MapFile{Data: []byte("7\n")}
	}
	return files
}

func TestReadMachine(t *testing.T) {
	m, err := ReadMachine(system([][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 0}, {1, 0}, {0, 1}, {1, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.CPUs[4], m.CPUs[7]); got != "{4 0 0 0} {7 3 1 1}" {
		t.Errorf("CPUs: %s", got)
	}
	if got := m.On(Of(1)).String(); got != "1,3,5,7" {
		t.Errorf("CPUs of node 1: %s", got)
	}
	if m.Threads() != 2 || m.Nodes() != Of(0, 1) || m.Node[1].Memory != 1<<20 || m.Node[0].Pages[2<<20] != 7 || m.Apart(Of(0, 1)) != 15.5 {
		t.Errorf("%+v", m)
	}
}

func TestReadMachineWithoutNodes(t *testing.T) {
	m, err := ReadMachine(fstest.MapFS{
		"cpu/online": {Data: []byte("0")}, "cpu/cpu0/topology/physical_package_id": {Data: []byte("-1")}, "cpu/cpu0/topology/core_id": {Data: []byte("0")},
	})
	if err != nil || len(m.CPUs) != 1 || m.CPUs[0] != (CPU{}) || m.Nodes() != Of(0) {
		t.Errorf("%+v %v", m, err)
	}
	if _, err := ReadMachine(fstest.MapFS{"cpu/online": {Data: []byte("x-y")}}); err == nil {
		t.Error("a list of CPUs that is none is read")
	}
}
