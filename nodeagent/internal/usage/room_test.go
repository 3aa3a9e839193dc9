package usage

import (
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/nodeagent/internal/cgroup"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	n, g, clk := setup(t)
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(g.cfg.Proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/pid_max", "32768\n")
	write("loadavg", "0.1 0.1 0.1 2/300 1\n")
	write("meminfo", "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 400 kB\nInactive(file): 300 kB\n")
	room := func() Room {
		t.Helper()
		r, err := g.Room(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := room()
	if !r.At.Equal(clk.Now()) || r.Processes != (Left{32468, 32768}) {
		t.Errorf("at %v: %+v", r.At, r.Processes)
	}
	if r.Disk == nil || r.Disk.Capacity == 0 || r.Images == nil || r.Images.Capacity == 0 || r.Containers != r.Images {
		t.Errorf("disks: %+v, %+v, %+v", r.Disk, r.Images, r.Containers)
	}
	for name, test := range map[string]struct {
		group *cgroup.Memory
		want  Left
	}{
		"a machine, by its groups":                 {&cgroup.Memory{WorkingSet: 700 << 10}, Left{300 << 10, 1000 << 10}},
		"a part, no more than the machine has":     {&cgroup.Memory{WorkingSet: 100 << 10}, Left{400 << 10, 1000 << 10}},
		"a part with a limit":                      {&cgroup.Memory{WorkingSet: 100 << 10, Limit: 250 << 10}, Left{150 << 10, 250 << 10}},
		"beyond its limit":                         {&cgroup.Memory{WorkingSet: 300 << 10, Limit: 250 << 10}, Left{0, 250 << 10}},
		"a root of version 2, which tells nothing": {nil, Left{400 << 10, 1000 << 10}},
	} {
		n.groups["/"] = cgroup.Usage{Memory: test.group}
		if got := room().Memory; got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	for name, test := range map[string]struct {
		group *cgroup.Memory
		want  Left
	}{
		"bounded":          {&cgroup.Memory{WorkingSet: 300 << 10, Limit: 800 << 10}, Left{500 << 10, 800 << 10}},
		"beyond the bound": {&cgroup.Memory{WorkingSet: 900 << 10, Limit: 800 << 10}, Left{0, 800 << 10}},
		"not bounded":      {&cgroup.Memory{WorkingSet: 300 << 10}, Left{}},
		"nothing told":     {nil, Left{}},
	} {
		n.groups[g.cfg.Pods] = cgroup.Usage{Memory: test.group}
		if got := room().Pods; got != test.want {
			t.Errorf("all pods, %s: %+v, want %+v", name, got, test.want)
		}
	}
}
