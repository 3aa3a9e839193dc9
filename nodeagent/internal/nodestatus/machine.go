package nodestatus

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Machine reads what the node is made of; its fields point elsewhere in tests.
type Machine struct {
	Proc       string     // /proc
	Etc        string     // /etc
	Sys        string     // /sys
	Disk       string     // a folder on the disk that pods use
	Thresholds Thresholds // what the node keeps for itself
}

// ThisMachine is the machine the agent runs on.
func ThisMachine(disk string, thresholds Thresholds) Machine {
	return Machine{"/proc", "/etc", "/sys", disk, thresholds}
}

// Capacity returns what the machine has and what pods may use of it: all
// but what the thresholds keep back.
func (m Machine) Capacity(maxPods int64) (capacity, allocatable corev1.ResourceList, _ error) {
	memory, err := m.memory()
	if err != nil {
		return nil, nil, err
	}
	disk, err := m.disk()
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
	keep := m.Thresholds
	return list(memory.total, disk.total), list(memory.total-keep.memory.of(memory.total), disk.total-keep.disk.of(disk.total)), nil
}

type memory struct{ total, available int64 }

func (m Machine) memory() (memory, error) {
	file, err := os.Open(filepath.Join(m.Proc, "meminfo"))
	if err != nil {
		return memory{}, err
	}
	defer file.Close()
	var out memory
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			out.total = kib << 10
		case "MemAvailable:":
			out.available = kib << 10
		}
	}
	if out.total == 0 {
		return memory{}, fmt.Errorf("%s says nothing of memory", file.Name())
	}
	return out, scanner.Err()
}

type disk struct {
	total, available  int64 // bytes
	inodes, freeNodes int64 // none where the file system does not count them
}

func (m Machine) disk() (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(m.Disk, &s); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", m.Disk, err)
	}
	return disk{int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize, int64(s.Files), int64(s.Ffree)}, nil
}

// Pressure says what the machine is short of.
type Pressure struct{ Memory, Disk, PID bool }

// Pressure reads what the machine is short of.
func (m Machine) Pressure() (Pressure, error) {
	memory, err := m.memory()
	if err != nil {
		return Pressure{}, err
	}
	disk, err := m.disk()
	if err != nil {
		return Pressure{}, err
	}
	limit, used, err := m.pids()
	if err != nil {
		return Pressure{}, err
	}
	keep := m.Thresholds
	return Pressure{
		Memory: memory.available < keep.memory.of(memory.total),
		Disk:   disk.available < keep.disk.of(disk.total) || disk.inodes > 0 && disk.freeNodes < keep.inodes.of(disk.inodes),
		PID:    limit-used < keep.pids.of(limit),
	}, nil
}

func (m Machine) pids() (limit, used int64, _ error) {
	limit, err := strconv.ParseInt(m.line(filepath.Join(m.Proc, "sys/kernel/pid_max")), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("pid_max: %w", err)
	}
	fields := strings.Fields(m.line(filepath.Join(m.Proc, "loadavg")))
	if len(fields) < 4 {
		return 0, 0, fmt.Errorf("loadavg has %d fields", len(fields))
	}
	_, total, _ := strings.Cut(fields[3], "/")
	used, err = strconv.ParseInt(total, 10, 64)
	return limit, used, err
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
