package nodeagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

func (n *node) testEnds(t *testing.T) {
	n = n.in(t)
	grace := int64(600)
	c := shell("trap 'echo bye; exit 0' TERM; while true; do sleep 0.1; done")
	c.Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo post >/tmp/post"}}},
		PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo pre >/proc/1/fd/1"}}},
	}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}, TerminationGracePeriodSeconds: &grace}})
	n.await("polite", "ready", time.Minute, ready)
	if stdout, _, _ := n.run("polite", "cat /tmp/post", ""); stdout != "post\n" {
		t.Errorf("postStart left %q", stdout)
	}
	follow, err := n.stream("log", "polite", "follow=true")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.remove("polite")
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("a pod that ends at once took %v", took)
	}
	if got := drain(t, follow); got[1] != "pre\nbye\n" {
		t.Errorf("its log: %q", got[1])
	}

	deaf := shell("trap '' TERM; while true; do sleep 1; done")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "deaf"}, Spec: corev1.PodSpec{Containers: []corev1.Container{deaf}, TerminationGracePeriodSeconds: &grace}})
	n.await("deaf", "ready", time.Minute, ready)
	began = time.Now()
	pods := object.For(n.client, object.Pod)
	if err := pods.Delete(t.Context(), "default", "deaf", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	short := int64(1) // a second deletion with less patience
	if err := pods.Delete(t.Context(), "default", "deaf", metav1.DeleteOptions{GracePeriodSeconds: &short}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		if p := n.get("deaf"); p != nil {
			return "it is still there"
		}
		return ""
	})
	if took := time.Since(began); took < time.Second {
		t.Errorf("it was killed after %v, before its grace was over", took)
	}

	deadline := int64(1)
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}, ActiveDeadlineSeconds: &deadline}})
	late := n.await("late", "failed", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if late.Status.Reason != "DeadlineExceeded" {
		t.Errorf("reason %q", late.Status.Reason)
	}
	n.remove("late")
}

func (n *node) testProblems(t *testing.T) {
	n = n.in(t)
	waiting := func(reason string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
		}
	}
	never, missing, env, root := shell("true"), shell("true"), shell("exec sleep 1000"), shell("true")
	never.Image, never.ImagePullPolicy = "howdah.test/none:1", corev1.PullNever
	missing.Image = "127.0.0.1:1/none:1"
	env.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "later"}, Key: "k"}}}}
	yes := true
	root.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes}
	for name, c := range map[string]corev1.Container{"never": never, "missing": missing, "env": env, "root": root} {
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	}
	claim := shell("true")
	claim.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PodSpec{Containers: []corev1.Container{claim}, Volumes: []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}}})
	n.await("never", "ErrImageNeverPull", time.Minute, waiting("ErrImageNeverPull"))
	n.await("missing", "ImagePullBackOff", time.Minute, waiting("ImagePullBackOff"))
	n.hasEvent("missing", "Pulling: Pulling image \"127.0.0.1:1/none:1\"")
	n.hasEvent("missing", "Failed: Failed to pull image \"127.0.0.1:1/none:1\": ")
	n.hasEvent("missing", "BackOff: Back-off pulling image \"127.0.0.1:1/none:1\"")
	p := n.await("env", "CreateContainerConfigError", time.Minute, waiting("CreateContainerConfigError"))
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; m != `configmap "later" not found` {
		t.Errorf("message %q", m)
	}
	p = n.await("root", "CreateContainerConfigError", time.Minute, waiting("CreateContainerConfigError"))
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(m, "container has runAsNonRoot and image will run as root (pod: \"root_default(") {
		t.Errorf("message %q", m)
	}
	n.hasEvent("claim", `FailedMount: Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC default/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found`)

	later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later"}, Data: map[string]string{"k": "v"}}
	if _, err := object.For(n.client, object.ConfigMap).Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	n.await("env", "ready once its ConfigMap is there", time.Minute, ready)
	for _, name := range []string{"never", "missing", "env", "root", "claim"} {
		n.remove(name)
	}
}

func (n *node) testRestart(t *testing.T) {
	outer := n
	n = n.in(t)
	c := shell("exec sleep 1000")
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stays"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	before := n.await("stays", "ready", time.Minute, ready)
	n.stop()
	n.startAgent()
	outer.stop, outer.agent, outer.streams = n.stop, n.agent, n.streams
	// The agent lives again once it takes a new pod.
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	n.await("new", "ready", time.Minute, ready)
	after := n.get("stays")
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the container is another: %s, was %s", after.Status.ContainerStatuses[0].String(), before.Status.ContainerStatuses[0].String())
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the pod was written though nothing changed:\n%s\nwas\n%s", after.Status.String(), before.Status.String())
	}
	n.remove("new")
	n.remove("stays")
}

// testUnknown ends a pod that left the API while the agent was away.
func (n *node) testUnknown(t *testing.T) {
	outer := n
	n = n.in(t)
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "forgotten"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	pod := n.await("forgotten", "ready", time.Minute, ready)
	n.stop()
	zero := int64(0)
	if err := object.For(n.client, object.Pod).Delete(t.Context(), "default", "forgotten", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	n.startAgent()
	outer.stop, outer.agent, outer.streams = n.stop, n.agent, n.streams
	eventually(t, time.Minute, func() string {
		left, _ := filepath.Glob("/sys/fs/cgroup/*/howdah-test-*/kubepods/besteffort/pod" + string(pod.UID))
		if len(left) > 0 {
			return "its processes are left"
		}
		if _, err := os.Stat(filepath.Join(n.dir, "howdah", "pods", string(pod.UID))); !os.IsNotExist(err) {
			return "its folder is left"
		}
		return ""
	})
}
