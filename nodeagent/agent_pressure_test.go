package nodeagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent"
)

// A disk of its own for volumes: the pod that fills it ends, the other one stays, and what it had is free again.
func TestRealNodeWithASmallDisk(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNodeWith(t, func(cfg *nodeagent.Config) {
		if err := os.Mkdir(cfg.RootDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", cfg.RootDir, "tmpfs", 0, "size=64m"); err != nil {
			t.Fatal(err)
		}
		cfg.EvictionHard = "nodefs.available<24Mi"
		cfg.Eviction = nodeagent.Eviction{Transition: 15 * time.Second}
	})
	create := func(name, mib string) {
		c := shell("dd if=/dev/zero of=/data/file bs=1M count=" + mib + "; exec sleep 1000")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}})
	}
	create("modest", "4")
	n.await("modest", "ready", 60*time.Second, ready)
	create("greedy", "50")
	pod := n.await("greedy", "evicted", 120*time.Second, func(p *corev1.Pod) bool { return p.Status.Reason == "Evicted" })
	if pod.Status.Phase != corev1.PodFailed || !strings.HasPrefix(pod.Status.Message, "The node was low on resource: ephemeral-storage. Threshold quantity: 24Mi, available: ") {
		t.Errorf("status: %s", pod.Status.String())
	}
	n.hasEvent("greedy", "Evicted: The node was low on resource: ephemeral-storage. ")
	n.hasEvent(nodeName, "EvictionThresholdMet: Attempting to reclaim ephemeral-storage")
	eventually(t, time.Minute, func() string {
		if got := pressureOf(n, t); got != corev1.ConditionTrue {
			return "DiskPressure is " + string(got)
		}
		return ""
	})
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	late := n.await("late", "refused", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if late.Status.Reason != "Evicted" || late.Status.Message != "Pod was rejected: The node had condition: [DiskPressure]. " {
		t.Errorf("status: %s", late.Status.String())
	}
	eventually(t, 90*time.Second, func() string {
		if _, err := os.Stat(filepath.Join(n.dir, "howdah", "pods", string(pod.UID))); !os.IsNotExist(err) {
			return "the pod's volumes are left"
		}
		if got := pressureOf(n, t); got != corev1.ConditionFalse {
			return "DiskPressure is " + string(got)
		}
		return ""
	})
	if p := n.await("modest", "running", time.Second, ready); p.Status.Phase != corev1.PodRunning {
		t.Errorf("the modest pod: %s", p.Status.String())
	}
	for _, name := range []string{"greedy", "modest", "late"} {
		n.remove(name)
	}
}

func pressureOf(n *node, t *testing.T) corev1.ConditionStatus {
	t.Helper()
	found, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.NodeDiskPressure {
			return c.Status
		}
	}
	return ""
}
