package cgroup

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of a group, and of the groups below it, have used and hold. What the kernel does not tell of a group is nil.
type Usage struct {
	CPU       *CPU
	Memory    *Memory
	Swap      *Swap
	Tasks     *Tasks
	IO        []IO
	Pressures Pressures
}

// CPU is time since the group was made.
type CPU struct {
	Total, User, System time.Duration
	// Periods counts those in which a quota was enforced; in Throttled of them the group was held back, for ThrottledTime together.
	Periods, Throttled uint64
	ThrottledTime      time.Duration
	// Shares are the group's weight beside others, 1024 for each core that is asked for. In each Period it may use the Quota; 0 is without a limit.
	Shares        uint64
	Period, Quota time.Duration
}

// Memory is in bytes; Faults and MajorFaults are counted since the group was made.
type Memory struct {
	Usage, WorkingSet, RSS, Cache, Mapped uint64
	Kernel, ActiveFile, InactiveFile      uint64
	Faults, MajorFaults                   uint64
	// Limit is 0 where there is none, Peak where the kernel keeps none. Reservation is what others do not get.
	Limit, Peak, Reservation uint64
	// Failures counts how often the limit was hit, Kills the processes that were killed for it.
	Failures, Kills uint64
}

// Swap is in bytes; Limit is 0 where there is none.
type Swap struct{ Usage, Limit uint64 }

// Tasks are what there is of the processes' threads, and how many there may be; Limit is 0 where there is none.
type Tasks struct{ Processes, Threads, Limit uint64 }

// IO is what was read from and written to a device, in bytes and operations since the group was made.
type IO struct {
	Device                    string // major:minor, until somebody finds its name
	ReadBytes, WrittenBytes   uint64
	ReadsDone, WritesFinished uint64
}

// userTick is the unit of the times in cpuacct.stat: the kernel's USER_HZ is 100 everywhere.
const userTick = time.Second / 100

// unlimited is where version 1's way to say "no limit" begins: the largest number of pages.
const unlimited = math.MaxInt64 - 1<<20

// Read returns the usage of a group, as Path names it. It fails where there is no such group; what a controller does not tell is left out.
func (t *Tree) Read(path string) (Usage, error) {
	if t.unified {
		return t.readUnified(filepath.Join(t.mount, path))
	}
	return t.readSplit(path)
}

// readUnified reads a group of version 2.
func (t *Tree) readUnified(dir string) (Usage, error) {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
		return Usage{}, err
	}
	var u Usage
	if stat, err := readFields(filepath.Join(dir, "cpu.stat")); err == nil {
		u.CPU = &CPU{
			Total: micro(stat["usage_usec"]), User: micro(stat["user_usec"]), System: micro(stat["system_usec"]),
			Periods: stat["nr_periods"], Throttled: stat["nr_throttled"], ThrottledTime: micro(stat["throttled_usec"]),
		}
		if weight, ok := number(dir, "cpu.weight"); ok {
			u.CPU.Shares = shares(weight)
		}
		u.CPU.Quota, u.CPU.Period = quota(filepath.Join(dir, "cpu.max"))
	}
	if used, ok := number(dir, "memory.current"); ok {
		stat, _ := readFields(filepath.Join(dir, "memory.stat"))
		events, _ := readFields(filepath.Join(dir, "memory.events"))
		limit, _ := number(dir, "memory.max")
		peak, _ := number(dir, "memory.peak")
		reserved, _ := number(dir, "memory.min")
		u.Memory = &Memory{
			Usage: used, WorkingSet: less(used, stat["inactive_file"]), RSS: stat["anon"], Cache: stat["file"], Mapped: stat["file_mapped"],
			Kernel: stat["kernel"], ActiveFile: stat["active_file"], InactiveFile: stat["inactive_file"], Reservation: reserved,
			Faults: stat["pgfault"], MajorFaults: stat["pgmajfault"], Limit: limit, Peak: peak, Failures: events["max"], Kills: events["oom_kill"],
		}
	}
	if swapped, ok := number(dir, "memory.swap.current"); ok {
		limit, _ := number(dir, "memory.swap.max")
		u.Swap = &Swap{Usage: swapped, Limit: limit}
	}
	u.Tasks = tasks(dir)
	u.IO = unifiedIO(filepath.Join(dir, "io.stat"))
	u.Pressures = groupPressures(dir)
	return u, nil
}

// readSplit reads a group of version 1, whose controllers are mounted one beside the other.
func (t *Tree) readSplit(path string) (Usage, error) {
	at := func(controller string) string { return filepath.Join(t.mount, controller, path) }
	var u Usage
	if total, ok := number(at("cpuacct"), "cpuacct.usage"); ok {
		times, _ := readFields(filepath.Join(at("cpuacct"), "cpuacct.stat"))
		stat, _ := readFields(filepath.Join(at("cpu"), "cpu.stat"))
		u.CPU = &CPU{
			Total: nano(total), User: time.Duration(times["user"]) * userTick, System: time.Duration(times["system"]) * userTick,
			Periods: stat["nr_periods"], Throttled: stat["nr_throttled"], ThrottledTime: nano(stat["throttled_time"]),
		}
		u.CPU.Shares, _ = number(at("cpu"), "cpu.shares")
		period, _ := number(at("cpu"), "cpu.cfs_period_us")
		most, _ := number(at("cpu"), "cpu.cfs_quota_us") // -1 is none
		u.CPU.Period, u.CPU.Quota = micro(period), micro(most)
	}
	if used, ok := number(at("memory"), "memory.usage_in_bytes"); ok {
		stat, _ := readFields(filepath.Join(at("memory"), "memory.stat"))
		killed, _ := readFields(filepath.Join(at("memory"), "memory.oom_control"))
		limit, _ := number(at("memory"), "memory.limit_in_bytes")
		peak, _ := number(at("memory"), "memory.max_usage_in_bytes")
		failures, _ := number(at("memory"), "memory.failcnt")
		kernel, _ := number(at("memory"), "memory.kmem.usage_in_bytes")
		reserved, _ := number(at("memory"), "memory.soft_limit_in_bytes")
		u.Memory = &Memory{
			Usage: used, WorkingSet: less(used, stat["total_inactive_file"]), RSS: stat["total_rss"], Cache: stat["total_cache"], Mapped: stat["total_mapped_file"],
			Kernel: kernel, ActiveFile: stat["total_active_file"], InactiveFile: stat["total_inactive_file"], Reservation: reserved,
			Faults: stat["total_pgfault"], MajorFaults: stat["total_pgmajfault"], Limit: limit, Peak: peak, Failures: failures, Kills: killed["oom_kill"],
		}
		if both, ok := number(at("memory"), "memory.memsw.limit_in_bytes"); ok {
			u.Swap = &Swap{Usage: stat["total_swap"], Limit: less(both, limit)}
		}
	}
	u.Tasks = tasks(at("pids"))
	u.IO = splitIO(at("blkio"))
	if u.CPU == nil && u.Memory == nil {
		return Usage{}, &fs.PathError{Op: "read group", Path: path, Err: fs.ErrNotExist}
	}
	return u, nil
}

// tasks reads what the pids controller counts; nil where it counts nothing.
func tasks(dir string) *Tasks {
	threads, ok := number(dir, "pids.current")
	if !ok {
		return nil
	}
	limit, _ := number(dir, "pids.max")
	return &Tasks{Processes: processes(dir), Threads: threads, Limit: limit}
}

// processes counts those of a group and of the groups below it. A group that ends meanwhile has none.
func processes(dir string) uint64 {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return 0
	}
	count := uint64(bytes.Count(data, []byte("\n")))
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			count += processes(filepath.Join(dir, e.Name()))
		}
	}
	return count
}

// shares are what a weight of version 2, from 1 to 10000, stands for: they span 2 to 262144.
func shares(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}

// quota reads cpu.max: "50000 100000", or "max 100000" without a limit.
func quota(path string) (most, period time.Duration) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	limit, every, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	n, _ := strconv.ParseUint(limit, 10, 64) // 0 for max
	p, _ := strconv.ParseUint(every, 10, 64)
	return micro(n), micro(p)
}

// number reads a file of one number; "max", and what means no limit in version 1, is 0. ok is false where the file cannot be read.
func number(dir, file string) (_ uint64, ok bool) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, false
	}
	if n >= unlimited {
		n = 0
	}
	return n, true
}

// readFields reads lines of a name and a number.
func readFields(path string) (map[string]uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, nil
}

// unifiedIO reads io.stat: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 ...".
func unifiedIO(path string) []IO {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out []IO
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		one := IO{Device: fields[0]}
		to := map[string]*uint64{"rbytes": &one.ReadBytes, "wbytes": &one.WrittenBytes, "rios": &one.ReadsDone, "wios": &one.WritesFinished}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			if n, err := strconv.ParseUint(value, 10, 64); err == nil && to[name] != nil {
				*to[name] = n
			}
		}
		out = append(out, one)
	}
	return out
}

// splitIO reads what version 1 counts, by device and operation, as "8:0 Read 1": of the groups below as well, where the kernel adds them up.
func splitIO(dir string) []IO {
	var order []string
	all := map[string]*IO{}
	for file, to := range map[string]map[string]func(*IO) *uint64{
		"blkio.throttle.io_service_bytes": {"Read": func(i *IO) *uint64 { return &i.ReadBytes }, "Write": func(i *IO) *uint64 { return &i.WrittenBytes }},
		"blkio.throttle.io_serviced":      {"Read": func(i *IO) *uint64 { return &i.ReadsDone }, "Write": func(i *IO) *uint64 { return &i.WritesFinished }},
	} {
		data, err := os.ReadFile(filepath.Join(dir, file+"_recursive"))
		if err != nil {
			data, err = os.ReadFile(filepath.Join(dir, file))
		}
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) != 3 || to[fields[1]] == nil {
				continue
			}
			n, err := strconv.ParseUint(fields[2], 10, 64)
			if err != nil {
				continue
			}
			if all[fields[0]] == nil {
				all[fields[0]] = &IO{Device: fields[0]}
				order = append(order, fields[0])
			}
			*to[fields[1]](all[fields[0]]) = n
		}
	}
	var out []IO
	for _, device := range order {
		out = append(out, *all[device])
	}
	return out
}

func micro(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

func nano(n uint64) time.Duration { return time.Duration(n) }

// less is a-b, and never below 0: both are read one after the other.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// Gone reports whether an error of Read says that there is no such group.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Process returns a process of a group, by its number here.
func (t *Tree) Process(path string) (pid int, ok bool) {
	all := t.members(path)
	if len(all) == 0 {
		return 0, false
	}
	return all[0], true
}

// Processes are the IDs of all processes in a group and the groups below it, those of the group itself first.
func (t *Tree) Processes(path string) []int {
	out := t.members(path)
	below, err := os.ReadDir(filepath.Join(t.processes(), path))
	if err != nil {
		return out
	}
	for _, group := range below {
		if group.IsDir() {
			out = append(out, t.Processes(filepath.Join(path, group.Name()))...)
		}
	}
	return out
}

// members are the processes of a group itself.
func (t *Tree) members(path string) []int {
	data, err := os.ReadFile(filepath.Join(t.processes(), path, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for line := range strings.Lines(string(data)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 { // 0 is one of another namespace
			out = append(out, pid)
		}
	}
	return out
}

// processes is the tree in which processes are looked for.
func (t *Tree) processes() string {
	if t.unified {
		return t.mount
	}
	return filepath.Join(t.mount, "memory")
}
