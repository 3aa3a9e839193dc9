package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// target is a control plane that runs for the bench, in processes of its own.
type target struct {
	system     string // howdah or Kubernetes
	kubeconfig string
	metrics    string // address of its metrics and profiles; empty: it has none
	ready      time.Duration
	// server is the process whose work is server_us_per_op, database the one whose work, with that of its children, is
	// database_us_per_op; 0 is none that was started here.
	server, database int
	// nodes is how many simulated nodes it has.
	nodes   int
	note    string // on what its memory is that of
	cleanup []func()
}

// stop ends the processes and removes what they kept.
func (t *target) stop() {
	for i := len(t.cleanup) - 1; i >= 0; i-- {
		t.cleanup[i]()
	}
	t.cleanup = nil
}

// kubernetes reports whether the target is what howdah is compared with.
func (t *target) kubernetes() bool { return t.system == kubernetesSystem }

const (
	howdahSystem     = "howdah"
	kubernetesSystem = "Kubernetes"
)

// stat is what proc(5) says of a process.
type stat struct {
	parent  int
	seconds float64 // of processor time
}

func statOf(pid int) (s stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return s, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	parent, err0 := strconv.Atoi(fields[1])
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // USER_HZ on Linux
	return stat{parent, (user + system) / ticks}, errors.Join(err0, err1, err2)
}

// cpuSeconds is what a process has used.
func cpuSeconds(pid int) (float64, error) {
	s, err := statOf(pid)
	return s.seconds, err
}

// tree returns a process and its children.
func tree(pid int) []int {
	pids := []int{pid}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if s, err := statOf(child); err == nil && s.parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// treeSeconds sums what a process and its children have used.
func treeSeconds(pid int) (sum float64) {
	for _, p := range tree(pid) {
		seconds, _ := cpuSeconds(p) // one that has ended meanwhile
		sum += seconds
	}
	return sum
}

// residentMiB is what a process holds, program text and all.
func residentMiB(pid int) (float64, error) { return memoryMiB(pid, "status", "VmRSS:") }

// peakMiB is the most that a process has ever held.
func peakMiB(pid int) (float64, error) { return memoryMiB(pid, "status", "VmHWM:") }

// treeMiB is what a process and its children hold, with what they share counted once.
func treeMiB(pid int) (sum float64, err error) {
	for _, p := range tree(pid) {
		mib, err := memoryMiB(p, "smaps_rollup", "Pss:")
		if err != nil && p == pid {
			return 0, err
		}
		sum += mib
	}
	return sum, nil
}

// memoryMiB reads a line of a file of proc(5) that is in kB.
func memoryMiB(pid int, file, line string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line); ok {
			var kib float64
			_, err := fmt.Sscanf(value, "%f kB", &kib)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d does not tell its %s", pid, strings.TrimSuffix(line, ":"))
}
