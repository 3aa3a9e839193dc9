package nodeagent_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent"
)

// cpusOf waits until a pod's container runs on these CPUs.
func (n *node) cpusOf(name, want string) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		out, errs, _ := n.run(name, "grep Cpus_allowed_list /proc/1/status", "")
		if _, got, _ := strings.Cut(out, ":"); strings.TrimSpace(got) != want {
			return name + " runs on " + out + errs + ", not on " + want
		}
		return ""
	})
}

// A container that asks for a whole CPU gets one, and the others leave it: those, too, that run already.
func TestRealNodeWithManagers(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNodeWith(t, func(cfg *nodeagent.Config) {
		cfg.Managers = nodeagent.Managers{
			CPUPolicy: "static", ReservedCPUs: "0", MemoryPolicy: "Static", ReservedMemory: []string{"0:memory=10Mi"}, // as the threshold has it
			TopologyPolicy: "single-numa-node",
		}
	})
	apiNode, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	all, usable := apiNode.Status.Capacity.Cpu().Value(), apiNode.Status.Allocatable.Cpu().Value()
	if all < 2 {
		t.Skip("of one CPU none can be given away")
	}
	if usable != all-1 {
		t.Errorf("of %d CPUs pods may ask for %d", all, usable)
	}
	list := resource.NewQuantity(usable, resource.DecimalSI)
	exclusive := func(name string) *corev1.Pod {
		c := shell("exec sleep 7777")
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *list, corev1.ResourceMemory: resource.MustParse("32Mi")}
		c.Resources.Requests = c.Resources.Limits
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shares"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 7777")}}})
	n.await("shares", "ready", time.Minute, ready)
	whole, _, _ := n.run("shares", "grep Cpus_allowed_list /proc/1/status", "")
	_, whole, _ = strings.Cut(whole, ":")
	whole = strings.TrimSpace(whole)

	n.create(exclusive("own"))
	n.await("own", "ready", time.Minute, ready)
	n.cpusOf("shares", "0")
	own, _, _ := n.run("own", "grep Cpus_allowed_list /proc/1/status; grep Mems_allowed_list /proc/1/status", "")
	if !strings.Contains(own, "Mems_allowed_list:\t0\n") || strings.Contains(own, "Cpus_allowed_list:\t0") {
		t.Errorf("its own: %q", own)
	}
	if quota, _, _ := n.run("own", "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null", ""); !strings.HasPrefix(quota, "-1") && !strings.HasPrefix(quota, "max") {
		t.Errorf("its time on them is limited: %q", quota)
	}
	n.create(exclusive("late"))
	late := n.await("late", "refused", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if late.Status.Reason != "TopologyAffinityError" || late.Status.Message != "Pod was rejected: Resources cannot be allocated with Topology locality" {
		t.Errorf("%s: %s", late.Status.Reason, late.Status.Message)
	}
	n.remove("late")

	n.stop()
	n.startAgent()
	eventually(t, time.Minute, func() string { // until it knows its pods
		if log := n.log("shares", "container=main"); log != "" {
			return log
		}
		return ""
	})
	n.cpusOf("shares", "0")
	assigned := n.podResources("own")
	if c := assigned.GetContainers(); len(c) != 1 || len(c[0].GetCpuIds()) != int(usable) || slices.Contains(c[0].GetCpuIds(), 0) ||
		len(c[0].GetMemory()) != 1 || c[0].GetMemory()[0].GetMemoryType() != "memory" || c[0].GetMemory()[0].GetSize() != 32<<20 {
		t.Errorf("it is said to have %v", assigned)
	}
	n.remove("own")
	n.cpusOf("shares", whole)
	n.remove("shares")
}

// podResources asks the node what a pod's containers have for themselves.
func (n *node) podResources(name string) *podresourcesapi.PodResources {
	n.t.Helper()
	var got *podresourcesapi.GetPodResourcesResponse
	n.askPodResources(func(ctx context.Context, c podresourcesapi.PodResourcesListerClient) (err error) {
		got, err = c.Get(ctx, &podresourcesapi.GetPodResourcesRequest{PodName: name, PodNamespace: "default"}, grpc.WaitForReady(true))
		return err
	})
	return got.GetPodResources()
}

// askPodResources asks the agent's API of what containers have, which may take as long as the agent needs to come.
func (n *node) askPodResources(ask func(ctx context.Context, c podresourcesapi.PodResourcesListerClient) error) {
	n.t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.dir, "kubelet", "pod-resources", "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	if err := ask(ctx, podresourcesapi.NewPodResourcesListerClient(conn)); err != nil {
		n.t.Fatal(err)
	}
}
