package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testResize changes what a container may use while it runs.
func (n *node) testResize(t *testing.T) {
	n = n.in(t)
	sizes := func(cpu, memory string) corev1.ResourceRequirements {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
	c := shell("exec sleep 1000")
	c.Resources = sizes("100m", "32Mi")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	n.await("grows", "ready", time.Minute, ready)
	for _, want := range []corev1.ResourceRequirements{sizes("200m", "64Mi"), sizes("50m", "16Mi")} {
		n.change("grows", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = want })
		p := n.await("grows", "resized", time.Minute, func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses[0]
			return s.Resources != nil && s.Resources.Limits.Memory().Cmp(*want.Limits.Memory()) == 0 && s.Resources.Limits.Cpu().Cmp(*want.Limits.Cpu()) == 0
		})
		if p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("it was restarted: %s", p.Status.String())
		}
		// The pod's own group and the container's below it.
		n.limits("memory", string(p.UID), "memory.limit_in_bytes", "memory.max", want.Limits.Memory().Value())
	}
	n.change("grows", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = sizes("9999", "16Mi") })
	n.await("grows", "refused", time.Minute, func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending {
				return c.Reason == corev1.PodReasonInfeasible
			}
		}
		return false
	})
	n.remove("grows")

	// The pod as a whole, and a container without limits of its own.
	whole := sizes("100m", "64Mi")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, Spec: corev1.PodSpec{Resources: &whole, Containers: []corev1.Container{shell("exec sleep 1000")}}})
	p := n.await("whole", "ready", time.Minute, ready)
	n.groupLimit(p, 64<<20)
	for _, want := range []string{"128Mi", "32Mi"} {
		size := sizes("100m", want)
		n.change("whole", func(p *corev1.Pod) { p.Spec.Resources = &size })
		n.await("whole", "resized", time.Minute, func(p *corev1.Pod) bool {
			return p.Status.Resources != nil && p.Status.Resources.Limits.Memory().String() == want && p.Status.AllocatedResources.Memory().String() == want
		})
		n.groupLimit(p, size.Limits.Memory().Value())
	}
	n.remove("whole")
}

// groupLimit looks at the limit of a pod's own group, in cgroup v1 or v2.
func (n *node) groupLimit(p *corev1.Pod, want int64) {
	n.t.Helper()
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/memory/howdah-test-*/kubepods/pod%s/memory.limit_in_bytes", "/sys/fs/cgroup/memory/howdah-test-*/kubepods/*/pod%s/memory.limit_in_bytes",
		"/sys/fs/cgroup/howdah-test-*/kubepods/pod%s/memory.max", "/sys/fs/cgroup/howdah-test-*/kubepods/*/pod%s/memory.max"} {
		files, _ := filepath.Glob(fmt.Sprintf(pattern, p.UID))
		found = append(found, files...)
	}
	if len(found) != 1 {
		n.t.Fatalf("groups of the pod: %v", found)
	}
	data, err := os.ReadFile(found[0])
	if err != nil || strings.TrimSpace(string(data)) != strconv.FormatInt(want, 10) {
		n.t.Errorf("limit %s, %v; want %d", data, err, want)
	}
}

// limits looks at a limit of a pod's group and of the groups in it, in cgroup v1 or v2.
func (n *node) limits(controller, uid, v1, v2 string, want int64) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		found := 0
		for _, pattern := range []string{
			"/sys/fs/cgroup/" + controller + "/howdah-test-*/kubepods/pod" + uid, "/sys/fs/cgroup/howdah-test-*/kubepods/pod" + uid,
		} {
			for _, depth := range []string{"", "/*"} {
				for _, name := range []string{v1, v2} {
					files, _ := filepath.Glob(pattern + depth + "/" + name)
					for _, file := range files {
						data, err := os.ReadFile(file)
						if err != nil {
							return err.Error()
						}
						if strings.TrimSpace(string(data)) == strconv.FormatInt(want, 10) {
							found++
						}
					}
				}
			}
		}
		if found < 2 { // the pause container has no limit of its own
			return fmt.Sprintf("%d groups with the limit %d", found, want)
		}
		return ""
	})
}
