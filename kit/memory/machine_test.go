package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:       24683672 kB\nMemFree:        9683672 kB\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nothing tells":       {nil, 0},
		"a machine":           {map[string]string{"proc/meminfo": meminfo}, 24683672 << 10},
		"a container":         {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"one without a limit": {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "max\n"}, 24683672 << 10},
		"version 1":           {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20},
		"1, without a limit":  {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 24683672 << 10},
		"strange words":       {map[string]string{"proc/meminfo": "MemTotal: much\n", "sys/fs/cgroup/memory.max": "little\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for path, text := range tt.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := machineMemory(root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
	if machineMemory("/") == 0 {
		t.Error("this machine has no memory")
	}
}
