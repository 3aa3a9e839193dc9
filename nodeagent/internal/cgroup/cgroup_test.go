package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func testPod(cpu, limit string) *corev1.Pod {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	if cpu != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if limit != "" {
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(limit)
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2")
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

// The files of a control group are the kernel's: here they are made by the
// writes, which is enough to see what is written where.
func TestTree(t *testing.T) {
	t.Parallel()
	p := testPod("500m", "64Mi")
	for name, test := range map[string]struct {
		files map[string]string // of the mount, before
		want  map[string]string
	}{
		"v1": {map[string]string{"cpu/x": "", "memory/x": ""}, map[string]string{
			"cpu/pre/kubepods/burstable/podu-x/cpu.shares":               "512",
			"cpu/pre/kubepods/burstable/podu-x/cpu.cfs_quota_us":         "200000",
			"memory/pre/kubepods/burstable/podu-x/memory.limit_in_bytes": "67108864",
			"cpu/pre/kubepods/burstable/cpu.shares":                      "512",
			"cpu/pre/kubepods/besteffort/cpu.shares":                     "2",
		}},
	} {
		mount := t.TempDir()
		for file, content := range test.files {
			path := filepath.Join(mount, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tree := NewTree(mount, "pre")
		if got := tree.Path(p); got != "/pre/kubepods/burstable/podu-x" {
			t.Errorf("%s: path %s", name, got)
		}
		for range 2 { // it is idempotent
			if err := tree.Ensure(p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for file, want := range test.want {
				if err := os.Chmod(filepath.Join(mount, file), 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(filepath.Join(mount, file))
				if err != nil || string(got) != want {
					t.Errorf("%s: %s is %q (%v), want %q", name, file, got, err, want)
				}
			}
		}
	}
}

// TestLimitsSwap looks at the group that the agent is in: the root of all limits nothing.
func TestLimitsSwap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []string
		own   string
		want  bool
	}{
		"version 2":               {[]string{"cgroup.controllers", "a/b/memory.swap.max"}, "0::/a/b\n", true},
		"a namespace of its own":  {[]string{"cgroup.controllers", "memory.swap.max"}, "0::/\n", true},
		"the kernel has none":     {[]string{"cgroup.controllers", "a/b/memory.max"}, "0::/a/b\n", false},
		"version 1":               {[]string{"memory/memory.memsw.limit_in_bytes"}, "3:memory:/\n", false},
		"both, memory in the old": {[]string{"cgroup.controllers", "memory.swap.max"}, "3:memory:/\n0::/\n", false},
		"nobody says which it is": {[]string{"cgroup.controllers", "memory.swap.max"}, "", false},
	} {
		mount, proc := t.TempDir(), t.TempDir()
		put(t, filepath.Join(proc, "self", "cgroup"), c.own)
		for _, file := range c.files {
			put(t, filepath.Join(mount, file), "")
		}
		if got := NewTree(mount, "").LimitsSwap(proc); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsPages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"v1 with":    {map[string]string{"hugetlb/tasks": ""}, true},
		"v1 without": {map[string]string{"memory/tasks": ""}, false},
		"v2 with":    {map[string]string{"cgroup.controllers": "cpu hugetlb pids\n"}, true},
		"v2 without": {map[string]string{"cgroup.controllers": "cpu pids\n"}, false},
	} {
		if got := NewTree(written(t, test.files), "").LimitsPages(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	one := func(cpu, memory string) corev1.Container {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: list}}
	}
	side := one("100m", "10Mi")
	side.RestartPolicy = &always
	p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{side, one("2", "5Mi")}, Containers: []corev1.Container{one("500m", "100Mi"), one("500m", "100Mi")}}}
	if got, want := sum(p), (totals{2100, 2100, 210 << 20}); got != want {
		t.Errorf("sum %v, want %v", got, want)
	}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
	if got := sum(p); got.cpuLimit != 0 || got.memoryLimit != 0 || got.request != 2100 {
		t.Errorf("with a container without limits: %v", got)
	}
	p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	if got := sum(p); got.memoryLimit != 1<<30 {
		t.Errorf("with a limit of its own: %v", got)
	}
	p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("120Mi")}
	if got, want := sum(p), (totals{2350, 0, 1<<30 + 120<<20}); got != want {
		t.Errorf("with what its class takes: %v, want %v", got, want)
	}
}

// The real thing, where this machine lets us.
func TestRealTree(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("control groups need root")
	}
	prefix := "howdah-cgroup-test"
	tree := NewTree("/sys/fs/cgroup", prefix)
	p := testPod("500m", "64Mi")
	if err := tree.Ensure(p); err != nil {
		t.Skipf("no writable control groups: %v", err)
	}
	t.Cleanup(func() {
		for _, root := range tree.roots() {
			_ = removeTree(filepath.Join(root, prefix))
		}
	})
	file := "/sys/fs/cgroup/memory" + tree.Path(p) + "/memory.limit_in_bytes"
	if tree.unified {
		file = "/sys/fs/cgroup" + tree.Path(p) + "/memory.max"
	}
	if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != "67108864" {
		t.Errorf("memory limit %q, %v", got, err)
	}
	if err := tree.Remove(p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the group is left: %v", err)
	}
}

// A pod whose containers have CPUs for themselves may use them all the time.
func TestPodWithItsOwnCPUsIsNotThrottled(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	for _, controller := range []string{"cpu", "memory"} {
		if err := os.Mkdir(filepath.Join(mount, controller), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree := NewTree(mount, "")
	tree.Unthrottled = func(p *corev1.Pod) bool { return p.UID == "u-x" }
	for uid, want := range map[string]bool{"u-x": false, "u-y": true} {
		p := testPod("2", "64Mi")
		p.UID = types.UID(uid)
		if err := tree.Ensure(p); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(mount, "cpu", tree.Path(p), "cpu.cfs_quota_us")); (err == nil) != want {
			t.Errorf("%s: its time is limited: %v", uid, err)
		}
	}
}
