// Package cgroup keeps the tree of control groups above the containers: one
// group a pod, by quality of service, so that a pod as a whole gets no more
// than its containers' limits and no less than their requests.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/container"
)

// Tree is the node's tree below <prefix>/kubepods, in cgroup v1 or v2.
type Tree struct {
	mount, prefix string
	unified       bool
	// Unthrottled, which may be nil, says of which pods' time on the CPUs no account is to be kept: they have some for themselves.
	Unthrottled func(p *corev1.Pod) bool
	// PodPIDs is how many processes and threads each pod may have; 0 is no limit of its own.
	PodPIDs int64
	seconds *prometheus.HistogramVec // nil until Measure

	mu        sync.Mutex
	burstable map[types.UID]int64 // requested thousandths of a core
}

// NewTree returns the tree of a cgroup mount such as /sys/fs/cgroup. prefix
// is the group that holds it, "" for the root.
func NewTree(mount, prefix string) *Tree {
	_, err := os.Stat(filepath.Join(mount, "cgroup.controllers"))
	return &Tree{mount: mount, prefix: prefix, unified: err == nil, burstable: map[types.UID]int64{}}
}

// Path returns the pod's group, relative to the mount.
func (t *Tree) Path(p *corev1.Pod) string {
	class := ""
	switch podspec.QOSClass(p) {
	case corev1.PodQOSBurstable:
		class = "burstable"
	case corev1.PodQOSBestEffort:
		class = "besteffort"
	}
	return filepath.Join("/", t.prefix, "kubepods", class, "pod"+string(p.UID))
}

// Ensure makes the pod's group and sets its limits.
func (t *Tree) Ensure(p *corev1.Pod) error {
	path := t.Path(p)
	r := sum(p)
	if t.Unthrottled != nil && t.Unthrottled(p) {
		r.cpuLimit = 0
	}
	began := time.Now()
	if err := t.create(path); err != nil {
		return fmt.Errorf("control group of pod: %w", err)
	}
	began = t.took("create", began)
	if err := t.apply(path, r); err != nil {
		return fmt.Errorf("limits of pod: %w", err)
	}
	t.took("update", began)
	if podspec.QOSClass(p) == corev1.PodQOSBurstable {
		t.mu.Lock()
		t.burstable[p.UID] = r.request
		t.mu.Unlock()
	}
	return t.weigh()
}

// Remove deletes the pod's group, whatever its class. Groups that runtimes
// left below it go too; one with a process in it stays and is an error.
func (t *Tree) Remove(p *corev1.Pod) error {
	t.mu.Lock()
	delete(t.burstable, p.UID)
	t.mu.Unlock()
	began := time.Now()
	var problems []error
	for _, root := range t.roots() {
		for _, class := range []string{"", "burstable", "besteffort"} {
			path := filepath.Join(root, t.prefix, "kubepods", class, "pod"+string(p.UID))
			if err := removeTree(path); err != nil {
				problems = append(problems, err)
			}
		}
	}
	t.took("destroy", began)
	return errors.Join(append(problems, t.weigh())...)
}

// roots are the mounted hierarchies that may hold the pod's group.
func (t *Tree) roots() []string {
	if t.unified {
		return []string{t.mount}
	}
	entries, err := os.ReadDir(t.mount)
	if err != nil {
		return nil
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join(t.mount, e.Name()))
		}
	}
	return roots
}

// LimitsSwap reports whether the kernel can limit swap space by groups of version 2. The root of all has no such file, so the group that the agent is in,
// as proc says, is looked at.
func (t *Tree) LimitsSwap(proc string) bool {
	own, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if !t.unified || err != nil {
		return false
	}
	path, found := strings.CutPrefix(strings.TrimSpace(string(own)), "0::")
	if !found {
		return false
	}
	_, err = os.Stat(filepath.Join(t.mount, path, "memory.swap.max"))
	return err == nil
}

// LimitsPages reports whether the kernel can limit huge pages by groups.
func (t *Tree) LimitsPages() bool {
	if !t.unified {
		info, err := os.Stat(filepath.Join(t.mount, "hugetlb"))
		return err == nil && info.IsDir()
	}
	controllers, err := os.ReadFile(filepath.Join(t.mount, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(controllers)), "hugetlb")
}

// weigh shares the CPU among the classes by what their pods asked for.
func (t *Tree) weigh() error {
	t.mu.Lock()
	var total int64
	for _, milli := range t.burstable {
		total += milli
	}
	t.mu.Unlock()
	top := filepath.Join("/", t.prefix, "kubepods")
	for class, milli := range map[string]int64{"burstable": total, "besteffort": 0} {
		path := filepath.Join(top, class)
		if err := t.create(path); err != nil {
			return err
		}
		if err := t.shares(path, container.Shares(milli)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) create(path string) error {
	if !t.unified {
		for _, controller := range []string{"cpu", "memory", "pids"} {
			if _, err := os.Stat(filepath.Join(t.mount, controller)); controller == "pids" && errors.Is(err, fs.ErrNotExist) {
				continue // where a limit is set, it is missed
			}
			if err := os.MkdirAll(filepath.Join(t.mount, controller, path), 0o755); err != nil {
				return err
			}
		}
		return nil
	}
	at := t.mount
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		if err := delegate(at); err != nil {
			return err
		}
		at = filepath.Join(at, part)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return delegate(at)
}

// delegate gives the children of a v2 group every controller that it has.
func delegate(group string) error {
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	have, err := os.ReadFile(filepath.Join(group, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(raw)) {
		if strings.Contains(" "+strings.TrimSpace(string(have))+" ", " "+controller+" ") {
			continue
		}
		// A controller that cannot be delegated is missed where a limit is set.
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
	return nil
}

func (t *Tree) apply(path string, r totals) error {
	if err := t.shares(path, container.Shares(r.request)); err != nil {
		return err
	}
	if quota := container.Quota(r.cpuLimit); quota > 0 {
		file, value := "cpu/"+path+"/cpu.cfs_quota_us", strconv.FormatInt(quota, 10)
		if t.unified {
			file, value = path+"/cpu.max", fmt.Sprintf("%d 100000", quota)
		}
		if err := t.write(file, value); err != nil {
			return err
		}
	}
	if err := t.boundMemory(path, r.memoryLimit); err != nil {
		return err
	}
	return t.boundPIDs(path, t.PodPIDs)
}

// boundMemory limits what the group's processes hold, in bytes; 0 leaves it as it is.
func (t *Tree) boundMemory(path string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	file := "memory/" + path + "/memory.limit_in_bytes"
	if t.unified {
		file = path + "/memory.max"
	}
	return t.write(file, strconv.FormatInt(limit, 10))
}

// boundPIDs limits how many processes and threads the group has; 0 leaves it as it is.
func (t *Tree) boundPIDs(path string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	file := path + "/pids.max"
	if !t.unified {
		file = "pids/" + file
	}
	return t.write(file, strconv.FormatInt(limit, 10))
}

func (t *Tree) shares(path string, shares int64) error {
	if !t.unified {
		return t.write("cpu/"+path+"/cpu.shares", strconv.FormatInt(shares, 10))
	}
	// The kernel's weights span 1 to 10000 where shares span 2 to 262144.
	return t.write(path+"/cpu.weight", strconv.FormatInt(1+((shares-2)*9999)/262142, 10))
}

func (t *Tree) write(file, value string) error {
	return os.WriteFile(filepath.Join(t.mount, file), []byte(value), 0)
}

// removeTree removes a group and the groups in it; the files of a group
// cannot be removed, and go with it.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
