package memory

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/topology"
	"howdah.dev/nodeagent/internal/topology/topologytest"
)

const gi = 1 << 30

// newManager has two nodes of 10 Gi, of each of which 1 Gi is the system's and one is huge pages.
func newManager(t *testing.T, path string) *Manager {
	t.Helper()
	node := topology.Node{Memory: 10 * gi, Pages: map[int64]int64{2 << 20: 512}}
	m, err := New(Config{
		Machine: topology.Machine{Node: map[int]topology.Node{0: node, 1: node}}, State: path, Registerer: prometheus.NewRegistry(),
		Reserved: Reserved{0: {corev1.ResourceMemory: gi}, 1: {corev1.ResourceMemory: gi}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func asks(name, memory, pages string) corev1.Container {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse(memory)}
	if pages != "" {
		list["hugepages-2Mi"] = resource.MustParse(pages)
	}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}
}

func TestMemoryIsPromisedOnce(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"))
	for _, step := range []struct {
		uid   types.UID
		asks  string
		pages string
		near  []int
		nodes string // "" is a refusal
	}{
		{"a", "5Gi", "512Mi", nil, "0"},
		{"b", "5Gi", "", nil, "1"},        // 3 Gi are left on the first
		{"c", "3Gi", "", []int{0}, "0"},   // and go
		{"d", "1Gi", "", []int{0}, ""},    // no company of the first has any
		{"e", "1Gi", "1Gi", nil, "1"},     // huge pages of the other
		{"f", "1Gi", "2Mi", []int{1}, ""}, // of which none is left
	} {
		err := topologytest.Give(m, topologytest.PodOf(step.uid, nil, asks("main", step.asks, step.pages)), step.near...)
		if got := m.Nodes(step.uid, "main"); got != step.nodes || (err == nil) != (step.nodes != "") {
			t.Errorf("%s: %q %v, want %q", step.uid, got, err, step.nodes)
		}
	}
	m.Release("a")
	m.Release("c")
	if err := topologytest.Give(m, topologytest.PodOf("wide", nil, asks("main", "9Gi", ""))); err == nil || !strings.Contains(err.Error(), "no NUMA nodes with enough memory is available") {
		t.Errorf("from both nodes, of which one has promised its own: %v", err)
	}
	for _, uid := range []types.UID{"b", "e"} {
		m.Release(uid)
	}
	if err := topologytest.Give(m, topologytest.PodOf("wide", nil, asks("main", "9Gi", ""))); err != nil || m.Nodes("wide", "main") != "0,1" {
		t.Errorf("from both nodes: %s %v", m.Nodes("wide", "main"), err)
	}
	if err := topologytest.Give(m, topologytest.PodOf("g", nil, asks("main", "1Gi", ""))); err != nil || m.Nodes("g", "main") != "0,1" { // only in that company
		t.Errorf("beside it: %s %v", m.Nodes("g", "main"), err)
	}
}

func TestInitContainersLeaveTheirMemory(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"))
	p := topologytest.PodOf("u", []corev1.Container{asks("init", "8Gi", "")}, asks("x", "4Gi", ""), asks("y", "4Gi", ""))
	if err := topologytest.Give(m, p, 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"init", "x", "y"} {
		if got := m.Nodes("u", name); got != "0" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := fmt.Sprint(m.PodHints(topologytest.PodOf("v", nil, asks("main", "1Gi", "")))["memory"]); got != "[{2 true}]" {
		t.Errorf("hints beside it: %s", got)
	}
}

func TestWhoSharesIsOnNoNode(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "s"))
	p := topologytest.PodOf("u", nil, asks("main", "1Gi", ""), corev1.Container{Name: "rest"}) // so it is Burstable
	if err := topologytest.Give(m, p); err != nil || m.Nodes("u", "main") != "" || len(m.Hints(p, &p.Spec.Containers[0])) != 0 {
		t.Errorf("%v %v", m.Of("u", "main"), err)
	}
}

func TestPromisesOutliveTheAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory_manager_state")
	m := newManager(t, path)
	if err := topologytest.Give(m, topologytest.PodOf("u", nil, asks("main", "5Gi", "")), 1); err != nil {
		t.Fatal(err)
	}
	m = newManager(t, path)
	if got := m.Nodes("u", "main"); got != "1" {
		t.Errorf("node %q", got)
	}
	c := asks("main", "5Gi", "")
	if got := fmt.Sprint(m.Hints(topologytest.PodOf("u", nil, c), &c)["memory"]); got != "[{2 true}]" {
		t.Errorf("hints of who has it: %s", got)
	}
	if err := CheckNone(path); err == nil || !strings.Contains(err.Error(), `configured policy "None" differs from state checkpoint policy "Static"`) {
		t.Error(err)
	}
}

func TestReserved(t *testing.T) {
	r, err := ParseReserved([]string{"0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=512Mi"})
	if err != nil || r[0][corev1.ResourceMemory] != gi || r[0]["hugepages-2Mi"] != 4<<20 || r[1][corev1.ResourceMemory] != gi/2 {
		t.Errorf("%v %v", r, err)
	}
	for _, wrong := range []string{"memory=1Gi", "0:cpu=1", "0:memory=x", "0:memory=1Gi;0:memory=1Gi", "0:memory=1Gi,memory=2Gi", "-1:memory=1Gi"} {
		if _, err := ParseReserved([]string{wrong}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
	nodes := topology.Of(0, 1)
	if err := r.Check(nodes, gi+gi/2); err != nil {
		t.Error(err)
	}
	if err := r.Check(nodes, gi); err == nil || err.Error() != `the total amount "1536Mi" of type "memory" is not equal to the value "1Gi" determined by Node Allocatable feature` {
		t.Error(err)
	}
	if err := r.Check(topology.Of(0), gi+gi/2); err == nil {
		t.Error("memory of a node that is not there is reserved")
	}
}
