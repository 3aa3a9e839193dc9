package nodestatus

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/nodeagent/internal/hugepage"
	"howdah.dev/nodeagent/internal/pressure"
)

// Machine reads what the node is made of; its fields point elsewhere in tests.
type Machine struct {
	Proc     string            // /proc
	Etc      string            // /etc
	Sys      string            // /sys
	Disk     string            // a folder on the disk that pods use
	Settings pressure.Settings // what the node keeps for itself
}

// ThisMachine is the machine the agent runs on.
func ThisMachine(disk string, settings pressure.Settings) Machine {
	return Machine{"/proc", "/etc", "/sys", disk, settings}
}

// Capacity returns what the machine has and what pods may use of it: all
// but what the thresholds keep back, and of the memory what is not in huge pages.
func (m Machine) Capacity(maxPods int64) (capacity, allocatable corev1.ResourceList, _ error) {
	memory, err := m.memory()
	if err != nil {
		return nil, nil, err
	}
	disk, err := m.disk()
	if err != nil {
		return nil, nil, err
	}
	pages, err := hugepage.Read(m.Sys)
	if err != nil {
		return nil, nil, err
	}
	list := func(memory, disk int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
			corev1.ResourcePods:             *resource.NewQuantity(maxPods, resource.DecimalSI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk, resource.BinarySI),
		}
	}
	keep := m.Settings.Reserved
	capacity = list(memory, disk)
	rest := memory - keep(pressure.MemoryAvailable, memory)
	for _, q := range pages {
		rest -= q.Value()
	}
	allocatable = list(max(rest, 0), disk-keep(pressure.NodeFSAvailable, disk))
	maps.Copy(capacity, pages)
	maps.Copy(allocatable, pages)
	return capacity, allocatable, nil
}

// memory returns what the machine has of it, in bytes.
func (m Machine) memory() (int64, error) { return m.meminfo("MemTotal") }

// Swap is the machine's swap space, in bytes.
func (m Machine) Swap() int64 {
	size, err := m.meminfo("SwapTotal")
	if err != nil { // a kernel without swap says nothing of it
		return 0
	}
	return size
}

// meminfo returns what the kernel says of memory by a name, in bytes.
func (m Machine) meminfo(name string) (int64, error) {
	file, err := os.Open(filepath.Join(m.Proc, "meminfo"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 || fields[0] != name+":" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file.Name(), err)
		}
		return kib << 10, nil
	}
	if err := scanner.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s says nothing of %s", file.Name(), name)
}

// disk returns the size of the pods' disk, in bytes.
func (m Machine) disk() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(m.Disk, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", m.Disk, err)
	}
	return int64(s.Blocks) * s.Bsize, nil
}

// line returns the first line of a file, "" where it cannot be read.
func (m Machine) line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first)
}

// AppArmor reports whether the kernel enforces AppArmor's profiles.
func (m Machine) AppArmor() bool {
	return strings.HasPrefix(m.line(filepath.Join(m.Sys, "module/apparmor/parameters/enabled")), "Y")
}

// Info describes the machine's system.
func (m Machine) Info() corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		MachineID:       m.line(filepath.Join(m.Etc, "machine-id")),
		SystemUUID:      m.line(filepath.Join(m.Sys, "class/dmi/id/product_uuid")),
		BootID:          m.line(filepath.Join(m.Proc, "sys/kernel/random/boot_id")),
		KernelVersion:   m.line(filepath.Join(m.Proc, "sys/kernel/osrelease")),
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, OSImage: "Linux",
	}
	if info.MachineID == "" {
		info.MachineID = info.BootID
	}
	if info.SystemUUID == "" {
		info.SystemUUID = info.MachineID
	}
	if swap := m.Swap(); swap > 0 {
		info.Swap = &corev1.NodeSwapStatus{Capacity: &swap}
	}
	if release, err := os.ReadFile(filepath.Join(m.Etc, "os-release")); err == nil {
		for _, line := range strings.Split(string(release), "\n") {
			if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				info.OSImage = strings.Trim(value, `"`)
			}
		}
	}
	return info
}

// Addresses returns the machine's own addresses, one of each family that it has, IPv4 first: those of the interface
// with the default route, else the first that are not local.
func (m Machine) Addresses() ([]string, error) {
	if name := m.defaultInterface(); name != "" {
		if i, err := net.InterfaceByName(name); err == nil {
			if addresses, err := i.Addrs(); err == nil {
				if ips := global(addresses); len(ips) > 0 {
					return ips, nil
				}
			}
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	if ips := global(addresses); len(ips) > 0 {
		return ips, nil
	}
	return nil, fmt.Errorf("this machine has no address but local ones")
}

func (m Machine) defaultInterface() string {
	data, err := os.ReadFile(filepath.Join(m.Proc, "net/route"))
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "00000000" {
			return fields[0]
		}
	}
	return ""
}

// global returns the first address of each family that is not local.
func global(addresses []net.Addr) []string {
	var v4, v6 []string
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			v4 = append(v4, n.IP.String())
		} else {
			v6 = append(v6, n.IP.String())
		}
	}
	return append(v4[:min(1, len(v4))], v6[:min(1, len(v6))]...)
}
