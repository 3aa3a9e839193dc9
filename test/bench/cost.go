package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cost is processor time, in seconds, since the processes' start.
type cost struct{ server, database, client float64 }

// cost reads what the standalone, the PostgreSQL that was started for it, and this process have used.
func (b *bench) cost() cost {
	c := cost{client: ownSeconds()}
	if b.server == nil {
		return c
	}
	// A process that cannot be read has ended, and the scenario fails for that.
	c.server, _ = cpuSeconds(b.server.cmd.Process.Pid)
	if b.server.postmaster != 0 {
		c.database = treeSeconds(b.server.postmaster)
	}
	return c
}

// per fills in what each of n operations cost since before.
func (f *figure) per(n int, before, after cost) {
	if n == 0 {
		return
	}
	us := func(a, b float64) float64 { return float64(int64((b - a) * 1e6 / float64(n))) }
	f.Server, f.Database, f.Client = us(before.server, after.server), us(before.database, after.database), us(before.client, after.client)
}

func ownSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}

// treeSeconds sums what a process and its children have used.
func treeSeconds(pid int) float64 {
	sum, _ := cpuSeconds(pid)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		var child int
		if _, err := fmt.Sscanf(path, "/proc/%d/stat", &child); err == nil {
			seconds, _ := cpuSeconds(child)
			sum += seconds
		}
	}
	return sum
}
