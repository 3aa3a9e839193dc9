package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files              map[string]string // of the mount, before
		bounded, unlimited map[string]string
	}{
		"version 1": {map[string]string{"cpu/x": "", "memory/x": "", "pids/x": ""},
			map[string]string{"cpu/pre/kubepods/cpu.shares": "1536", "memory/pre/kubepods/memory.limit_in_bytes": "1000", "pids/pre/kubepods/pids.max": "50"},
			map[string]string{"memory/pre/kubepods/memory.limit_in_bytes": "-1", "pids/pre/kubepods/pids.max": "max"}},
		"version 2": {map[string]string{
			"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "", "pre/cgroup.controllers": "", "pre/cgroup.subtree_control": "",
			"pre/kubepods/cgroup.controllers": "", "pre/kubepods/cgroup.subtree_control": ""},
			map[string]string{"pre/kubepods/cpu.weight": "59", "pre/kubepods/memory.max": "1000", "pre/kubepods/pids.max": "50"},
			map[string]string{"pre/kubepods/memory.max": "max", "pre/kubepods/pids.max": "max"}},
	} {
		mount := written(t, test.files)
		tree := NewTree(mount, "pre")
		check := func(want map[string]string) {
			t.Helper()
			for file, value := range want {
				_ = os.Chmod(filepath.Join(mount, file), 0o600)
				if got, err := os.ReadFile(filepath.Join(mount, file)); err != nil || strings.TrimSpace(string(got)) != value {
					t.Errorf("%s: %s is %q (%v), want %q", name, file, got, err, value)
				}
			}
		}
		if err := tree.Bound(Whole{CPU: 1500, Memory: 1000, PIDs: 50}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(test.bounded)
		if err := tree.Unbound(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(test.unlimited)
	}
}

// A pod's own limit of processes stands in its group, where the kernel can count them.
func TestPodPIDs(t *testing.T) {
	t.Parallel()
	mount := written(t, map[string]string{"cpu/x": "", "memory/x": "", "pids/x": ""})
	tree := NewTree(mount, "")
	tree.PodPIDs = 100
	p := testPod("500m", "64Mi")
	if err := tree.Ensure(p); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(mount, "pids", tree.Path(p), "pids.max")
	_ = os.Chmod(file, 0o600)
	if got, err := os.ReadFile(file); err != nil || string(got) != "100" {
		t.Errorf("%q, %v", got, err)
	}
}
