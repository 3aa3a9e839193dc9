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
	Proc string // /proc
	Etc  string // /etc
	Sys  string // /sys
	Disk string // a folder on the disk that pods use
}

// ThisMachine is the machine the agent runs on.
func ThisMachine(disk string) Machine { return Machine{"/proc", "/etc", "/sys", disk} }

// What the node keeps for itself: below it, memory and disk count as short.
const (
	reservedMemory = 100 << 20 // bytes
	reservedDisk   = 10        // percent
	reservedInodes = 5         // percent
	reservedPIDs   = 4         // percent
)

// Capacity returns what the machine has and what pods may use of it.
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
	return list(memory.total, disk.total), list(memory.total-reservedMemory, disk.total/100*(100-reservedDisk)), nil
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
	total, available  int64
	inodes, freeNodes uint64
}

func (m Machine) disk() (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(m.Disk, &s); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", m.Disk, err)
	}
	return disk{int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize, s.Files, s.Ffree}, nil
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
	p := Pressure{
		Memory: memory.available < reservedMemory,
		Disk:   disk.available < disk.total/100*reservedDisk || disk.inodes > 0 && disk.freeNodes < disk.inodes/100*reservedInodes,
	}
	limit, used, err := m.pids()
	if err != nil {
		return Pressure{}, err
	}
	p.PID = limit-used < limit*reservedPIDs/100
	return p, nil
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

// Addresses returns the machine's own addresses: those of the interface
// with the default route, else the first that is not local.
func (m Machine) Addresses() ([]string, error) {
	if name := m.defaultInterface(); name != "" {
		if i, err := net.InterfaceByName(name); err == nil {
			if addresses, err := i.Addrs(); err == nil {
				if ips := global(addresses); len(ips) > 0 {
					return ips[:1], nil
				}
			}
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	if ips := global(addresses); len(ips) > 0 {
		return ips[:1], nil
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

func global(addresses []net.Addr) []string {
	var out []string
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			out = append(out, n.IP.String())
		}
	}
	return out
}
