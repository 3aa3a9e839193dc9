package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/cgroup"
)

// interfaces reads a net/dev of /proc: all but the loopback.
func interfaces(path string) ([]Interface, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Interface
	for line := range strings.Lines(string(data)) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 16 {
			continue // the two lines above
		}
		i := Interface{Name: strings.TrimSpace(name)}
		if i.Name == "lo" {
			continue
		}
		for column, to := range map[int]*uint64{
			0: &i.RxBytes, 1: &i.RxPackets, 2: &i.RxErrors, 3: &i.RxDropped, 8: &i.TxBytes, 9: &i.TxPackets, 10: &i.TxErrors, 11: &i.TxDropped,
		} {
			if *to, err = strconv.ParseUint(fields[column], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// firstInterface puts the interface of the default route, or else eth0, in front of the others; pods' ends of veth pairs, which are
// the pods' traffic once more, are left out.
func firstInterface(all []Interface, route string) []Interface {
	var out []Interface
	for _, i := range all {
		switch {
		case strings.HasPrefix(i.Name, "veth"):
		case i.Name == route:
			out = append([]Interface{i}, out...)
		default:
			out = append(out, i)
		}
	}
	return out
}

// defaultRoute names the interface with the default route, "eth0" where there is none.
func defaultRoute(proc string) string {
	data, err := os.ReadFile(filepath.Join(proc, "net/route"))
	if err != nil {
		return "eth0"
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "00000000" {
			return fields[0]
		}
	}
	return "eth0"
}

// StatFilesystem describes the one that a folder is on.
func StatFilesystem(path string, at time.Time) (*Filesystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", path, err)
	}
	size := uint64(s.Bsize)
	f := &Filesystem{At: at, Capacity: s.Blocks * size, Available: s.Bavail * size, Inodes: s.Files, InodesFree: s.Ffree}
	f.Used, f.InodesUsed = (s.Blocks-s.Bfree)*size, s.Files-s.Ffree
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err == nil {
		f.Device = fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	}
	return f, nil
}

// machineMemory reads the memory there is, and what the whole machine uses of it: for roots of control groups, of which version 2 tells
// only the time.
func machineMemory(proc string) (total uint64, used *cgroup.Memory, swap *cgroup.Swap) {
	data, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return 0, nil, nil
	}
	kib := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
				kib[name] = n << 10
			}
		}
	}
	used = &cgroup.Memory{
		Usage: kib["MemTotal"] - min(kib["MemFree"], kib["MemTotal"]), RSS: kib["AnonPages"], Cache: kib["Cached"], Mapped: kib["Mapped"],
	}
	used.WorkingSet = used.Usage - min(kib["Inactive(file)"], used.Usage)
	return kib["MemTotal"], used, &cgroup.Swap{Usage: kib["SwapTotal"] - min(kib["SwapFree"], kib["SwapTotal"]), Limit: kib["SwapTotal"]}
}

// booted is when the machine started.
func booted(proc string, now time.Time) time.Time {
	data, err := os.ReadFile(filepath.Join(proc, "uptime"))
	if err != nil {
		return time.Time{}
	}
	first, _, _ := strings.Cut(string(data), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return time.Time{}
	}
	return now.Add(-time.Duration(seconds * float64(time.Second))).Truncate(time.Second)
}

// processes are how many there may be, and are.
// MaxPIDs is how many processes and threads the machine may have; 0 where it does not say.
func MaxPIDs(proc string) int64 {
	limit, _ := processes(proc)
	return limit
}

func processes(proc string) (limit, running int64) {
	if data, err := os.ReadFile(filepath.Join(proc, "sys/kernel/pid_max")); err == nil {
		limit, _ = strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	}
	if data, err := os.ReadFile(filepath.Join(proc, "loadavg")); err == nil {
		if fields := strings.Fields(string(data)); len(fields) > 3 {
			_, total, _ := strings.Cut(fields[3], "/")
			running, _ = strconv.ParseInt(total, 10, 64)
		}
	}
	return limit, running
}
