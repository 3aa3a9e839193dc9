package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// written returns a mount with these files in it.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	mount := t.TempDir()
	for file, content := range files {
		path := filepath.Join(mount, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mount
}

func TestRead(t *testing.T) {
	t.Parallel()
	want := Usage{
		CPU: &CPU{
			Total: 5 * time.Second, User: 3 * time.Second, System: 2 * time.Second, Periods: 10, Throttled: 4, ThrottledTime: time.Second,
			Shares: 998, Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond,
		},
		Memory: &Memory{
			Usage: 1000, WorkingSet: 700, RSS: 400, Cache: 600, Mapped: 50, Kernel: 30, ActiveFile: 250, InactiveFile: 300, Faults: 7, MajorFaults: 1,
			Limit: 4096, Peak: 1500, Reservation: 128, Failures: 9, Kills: 2,
		},
		Swap:  &Swap{Usage: 20, Limit: 904},
		Tasks: &Tasks{Processes: 3, Threads: 5, Limit: 100},
		IO:    []IO{{Device: "8:0", ReadBytes: 11, WrittenBytes: 12, ReadsDone: 13, WritesFinished: 14}},
	}
	for name, files := range map[string]map[string]string{
		"v1": {
			"cpuacct/a/cpuacct.usage": "5000000000\n", "cpuacct/a/cpuacct.stat": "user 300\nsystem 200\n",
			"cpu/a/cpu.stat":                                    "nr_periods 10\nnr_throttled 4\nthrottled_time 1000000000\n",
			"cpu/a/cpu.shares":                                  "998\n",
			"cpu/a/cpu.cfs_period_us":                           "100000\n",
			"cpu/a/cpu.cfs_quota_us":                            "50000\n",
			"memory/a/memory.kmem.usage_in_bytes":               "30\n",
			"memory/a/memory.soft_limit_in_bytes":               "128\n",
			"memory/a/memory.usage_in_bytes":                    "1000\n",
			"memory/a/memory.limit_in_bytes":                    "4096\n",
			"memory/a/memory.max_usage_in_bytes":                "1500\n",
			"memory/a/memory.failcnt":                           "9\n",
			"memory/a/memory.oom_control":                       "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"memory/a/memory.memsw.limit_in_bytes":              "5000\n",
			"memory/a/memory.stat":                              "rss 1\ntotal_cache 600\ntotal_rss 400\ntotal_mapped_file 50\ntotal_swap 20\ntotal_pgfault 7\ntotal_pgmajfault 1\ntotal_inactive_file 300\ntotal_active_file 250\n",
			"pids/a/pids.current":                               "5\n",
			"pids/a/pids.max":                                   "100\n",
			"pids/a/cgroup.procs":                               "7\n",
			"pids/a/b/cgroup.procs":                             "8\n9\n",
			"blkio/a/blkio.throttle.io_service_bytes":           "8:0 Read 1\n8:0 Write 2\n",
			"blkio/a/blkio.throttle.io_service_bytes_recursive": "8:0 Read 11\n8:0 Write 12\n8:0 Total 23\nTotal 23\n",
			"blkio/a/blkio.throttle.io_serviced":                "8:0 Read 13\n8:0 Write 14\n",
		},
		"v2": {
			"cgroup.controllers": "cpu memory\n", "a/cgroup.procs": "7\n", "a/b/cgroup.procs": "8\n9\n",
			"a/cpu.weight": "39\n", "a/cpu.max": "50000 100000\n", "a/memory.min": "128\n", "a/pids.max": "100\n",
			"a/cpu.stat":       "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1000000\n",
			"a/memory.current": "1000\n", "a/memory.max": "4096\n", "a/memory.peak": "1500\n",
			"a/memory.events":       "low 0\nmax 9\noom 1\noom_kill 2\n",
			"a/memory.stat":         "anon 400\nfile 600\nfile_mapped 50\ninactive_file 300\nactive_file 250\nkernel 30\npgfault 7\npgmajfault 1\n",
			"a/memory.swap.current": "20\n", "a/memory.swap.max": "904\n", "a/pids.current": "5\n",
			"a/io.stat": "8:0 rbytes=11 wbytes=12 rios=13 wios=14 dbytes=0 dios=0\n",
		},
	} {
		got, err := NewTree(written(t, files), "").Read("/a")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %+v %+v, %v", name, got, got.CPU, got.Memory, err)
		}
	}
}

func TestReadTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"v1": {"cpuacct/a/cpuacct.usage": "1\n", "memory/memory.usage_in_bytes": "1\n"},
		"v2": {"cgroup.controllers": "", "a/cgroup.procs": "", "a/cpu.stat": "usage_usec 1\n"},
	} {
		tree := NewTree(written(t, files), "")
		got, err := tree.Read("a")
		if err != nil || got.CPU == nil || got.Memory != nil || got.Swap != nil || got.Tasks != nil || got.IO != nil {
			t.Errorf("%s: a group without memory's controller: %+v, %v", name, got, err)
		}
		if _, err := tree.Read("b"); !Gone(err) {
			t.Errorf("%s: a group that is not there: %v", name, err)
		}
	}
	tree := NewTree(written(t, map[string]string{"memory/a/memory.usage_in_bytes": "100\n", "memory/a/memory.limit_in_bytes": "9223372036854771712\n",
		"memory/a/memory.stat": "total_inactive_file 200\n"}), "")
	if got, err := tree.Read("a"); err != nil || got.Memory.Limit != 0 || got.Memory.WorkingSet != 0 {
		t.Errorf("no limit, and less in use than is inactive: %+v, %v", got.Memory, err)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"v1": {"memory/a/cgroup.procs": "0\n7\n8\n", "memory/a/b/cgroup.procs": "9\n"},
		"v2": {"cgroup.controllers": "", "a/cgroup.procs": "0\n7\n8\n", "a/b/cgroup.procs": "9\n"},
	} {
		tree := NewTree(written(t, files), "")
		if got := tree.Processes("/a"); !reflect.DeepEqual(got, []int{7, 8, 9}) {
			t.Errorf("%s: %v", name, got)
		}
		if pid, ok := tree.Process("/a"); pid != 7 || !ok {
			t.Errorf("%s: %d %t", name, pid, ok)
		}
		if _, ok := tree.Process("/none"); ok || len(tree.Processes("/none")) > 0 {
			t.Errorf("%s: a group that is not there has processes", name)
		}
	}
}
