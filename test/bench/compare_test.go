package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	ours := []figure{
		{Scenario: "pod create", Clients: 16, PerSec: 3160, Server: 300, Database: 60, Client: 150},
		{Scenario: "pod create", Clients: 1, P50: 0.76},
		{Scenario: "what is compared with nothing", PerSec: 1},
		{Scenario: "custom resource get", Clients: 16, PerSec: 6000, Server: 100, Database: 1, Client: 50},
		{Scenario: afterTheRun, MiB: 274},
	}
	theirs := []figure{
		{Scenario: "pod create", Clients: 16, PerSec: 790, Server: 1200, Database: 200},
		{Scenario: afterTheRun, MiB: 1096},
		{Scenario: "custom resource get", Clients: 16, PerSec: 2000, Server: 300, Database: 40},
	}
	for name, c := range map[string]struct {
		theirs []figure
		want   map[string]string // rows by what they begin with
	}{
		"alone": {nil, map[string]string{
			"measured clients": "howdah Kubernetes, issue times aim server µs database µs client µs",
			"pod create 1":     "0.76 ms 3.8 ms 0.20 0.40 0 0 0",
			"pod create 16":    "3160 /s 632 /s 5.00 5.00 300 60 150",
			afterTheRun:        "274 MiB 1370 MiB 0.20 0.20 0 0 0",
		}},
		"beside what was measured": {theirs, map[string]string{
			"measured clients":       "howdah Kubernetes here Kubernetes, issue times aim server µs database µs kube-apiserver µs etcd µs client µs",
			"pod create 1":           "0.76 ms 3.8 ms 0.20 0.40 0 0 0 0 0",
			"pod create 16":          "3160 /s 790 /s 632 /s 4.00 5.00 300 60 1200 200 150",
			afterTheRun:              "274 MiB 1096 MiB 1370 MiB 0.25 0.20 0 0 0 0 0",
			"custom resource get 16": "6000 /s 2000 /s 3.00 100 1 300 40 50",
		}},
	} {
		var out bytes.Buffer
		compare(&out, ours, c.theirs)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", name, len(lines), len(c.want), out.String())
		}
		for start, rest := range c.want {
			want := start + " " + rest
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
				t.Errorf("%s: no line %q in\n%s", name, want, out.String())
			}
		}
	}
}

// TestProcess holds that what proc(5) says of this process is read.
func TestProcess(t *testing.T) {
	t.Parallel()
	pid := os.Getpid()
	s, err := statOf(pid)
	if err != nil || s.parent != os.Getppid() {
		t.Errorf("parent %d, want %d: %v", s.parent, os.Getppid(), err)
	}
	if pids := tree(os.Getppid()); !slices.Contains(pids, pid) || !slices.Contains(pids, os.Getppid()) {
		t.Errorf("the tree of the parent is %v, without %d", pids, pid)
	}
	resident, err := residentMiB(pid)
	highest, err2 := peakMiB(pid)
	whole, err3 := treeMiB(pid)
	if err != nil || err2 != nil || err3 != nil || resident < 1 || highest < resident/2 || whole < 1 {
		t.Errorf("resident %.1f MiB (%v), at its peak %.1f (%v), with its children %.1f (%v)", resident, err, highest, err2, whole, err3)
	}
	if _, err := residentMiB(1 << 30); err == nil {
		t.Error("a process that is not there holds memory")
	}
}
