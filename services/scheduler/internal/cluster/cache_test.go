package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func testPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "example.com/gpu": resource.MustParse("1")}},
		}}},
	}
}

func requested(c *Cache, node string) (milliCPU, gpus int64) {
	n := c.Snapshot().Node(node)
	return n.Requested.MilliCPU, n.Requested.Extended["example.com/gpu"]
}

func TestCacheCountsPodsOnce(t *testing.T) {
	t.Parallel()
	c := NewCache()
	c.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	steps := []struct {
		name string
		do   func()
		cpu  int64
	}{
		{"an assumed pod counts", func() { assume(c, "a") }, 250},
		{"its confirmation does not count again", func() { c.SetPod(testPod("a", "n")) }, 250},
		{"a confirmed pod cannot be forgotten", func() { c.Forget("a") }, 250},
		{"a bound pod cannot be assumed again", func() { assume(c, "a") }, 250},
		{"a second pod", func() { assume(c, "b") }, 500},
		{"an assumption that failed", func() { c.Forget("b") }, 250},
		{"a pod that has ended takes nothing", func() {
			p := testPod("a", "n")
			p.Status.Phase = corev1.PodSucceeded
			c.SetPod(p)
		}, 0},
		{"a deleted pod", func() { c.SetPod(testPod("c", "n")); c.DeletePod("c") }, 0},
	}
	for _, s := range steps {
		s.do()
		if cpu, gpus := requested(c, "n"); cpu != s.cpu || gpus != s.cpu/250 {
			t.Fatalf("%s: %dm and %d GPUs requested, want %dm", s.name, cpu, gpus, s.cpu)
		}
	}
}

func TestPodsOutliveTheirNode(t *testing.T) {
	t.Parallel()
	c := NewCache()
	c.SetPod(testPod("a", "n")) // the pod may be heard of before its node
	if len(c.Snapshot().Nodes) != 0 {
		t.Fatal("a node that is not there was offered")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	c.SetNode(node)
	c.DeleteNode("n")
	c.SetNode(node)
	if cpu, _ := requested(c, "n"); cpu != 250 {
		t.Fatalf("%dm requested, want 250m", cpu)
	}
}

func TestSnapshotsDoNotChange(t *testing.T) {
	t.Parallel()
	c := NewCache()
	c.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	before := c.Snapshot()
	c.SetPod(testPod("a", "n"))
	if len(before.Node("n").Pods) != 0 {
		t.Fatal("a pod appeared in an older snapshot")
	}
}

func TestHostPorts(t *testing.T) {
	t.Parallel()
	sidecar := corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{HostPort: 81, HostIP: "127.0.0.1", Protocol: corev1.ProtocolUDP}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{sidecar, {Ports: []corev1.ContainerPort{{HostPort: 99}}}},
		Containers:     []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}, {ContainerPort: 82}}}},
	}}
	got := HostPorts(pod)
	if len(got) != 2 || got[0] != (HostPort{"0.0.0.0", corev1.ProtocolTCP, 80}) || got[1] != (HostPort{"127.0.0.1", corev1.ProtocolUDP, 81}) {
		t.Fatalf("got %v", got)
	}
	for _, tt := range []struct {
		other     HostPort
		conflicts bool
	}{
		{HostPort{"127.0.0.1", corev1.ProtocolTCP, 80}, true},
		{HostPort{"0.0.0.0", corev1.ProtocolUDP, 80}, false},
		{HostPort{"0.0.0.0", corev1.ProtocolTCP, 8080}, false},
	} {
		if got[0].Conflicts(tt.other) != tt.conflicts {
			t.Errorf("%v and %v: conflict is not %v", got[0], tt.other, tt.conflicts)
		}
	}
}

func assume(c *Cache, name string) {
	p := testPod(name, "n")
	c.Assume(p, DemandOf(p))
}

func TestSnapshotIsSortedAndKeepsWhatItShowed(t *testing.T) {
	t.Parallel()
	c := NewCache()
	names := func(s Snapshot) (all string) {
		for _, n := range s.Nodes {
			all += n.Name
		}
		return all
	}
	object := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for _, name := range []string{"c", "a", "d", "b"} {
		c.SetNode(object(name))
	}
	c.SetPod(testPod("p", "e")) // of a node that is not there yet
	before := c.Snapshot()
	c.DeleteNode("c")
	c.SetNode(object("e"))
	assume(c, "q") // on node n, which is not there either
	if got := names(before); got != "abcd" {
		t.Errorf("the old snapshot shows %s, want abcd", got)
	}
	after := c.Snapshot()
	if got := names(after); got != "abde" {
		t.Errorf("the new snapshot shows %s, want abde", got)
	}
	if n := after.Node("e"); n == nil || len(n.Pods) != 1 {
		t.Errorf("node e came without its pod: %+v", n)
	}
}

func TestNominations(t *testing.T) {
	t.Parallel()
	c := NewCache()
	kept := func() int { return len(c.Snapshot().Nominees["n"]) }
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"a node is kept", func() { c.Nominate(testPod("a", ""), "n") }, 1},
		{"once", func() { c.Nominate(testPod("a", ""), "n") }, 1},
		{"for several", func() { c.Nominate(testPod("b", ""), "n") }, 2},
		{"an assumed pod needs it no more", func() { assume(c, "a") }, 1},
		{"but when it could not be bound", func() { c.Forget("a") }, 2},
		{"another node", func() { c.Nominate(testPod("a", ""), "m") }, 1},
		{"none", func() { c.Nominate(testPod("a", ""), "") }, 1},
		{"a deleted pod", func() { c.DeletePod("b") }, 0},
		{"a bound pod", func() { c.Nominate(testPod("c", ""), "n"); c.SetPod(testPod("c", "n")); c.DeletePod("c") }, 0},
	}
	for _, s := range steps {
		s.do()
		if got := kept(); got != s.want {
			t.Errorf("%s: kept for %d, want %d", s.name, got, s.want)
		}
	}
	if n := c.Nomination("c"); n != "" {
		t.Errorf("%q is kept for a pod that is gone", n)
	}
}
