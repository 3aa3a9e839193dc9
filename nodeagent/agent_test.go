package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

func TestRealNode(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNode(t)
	t.Run("pod", n.testPod)
	t.Run("streams", n.testStreams)
	t.Run("endpoint", n.testEndpoint)
	t.Run("serving certificate", n.testServing)
	t.Run("crash", n.testCrash)
	t.Run("init", n.testInit)
	t.Run("volumes", n.testVolumes)
	t.Run("certificates of pods", n.testIdentity)
	t.Run("users", n.testUsers)
	t.Run("classes", n.testClasses)
	t.Run("claims", n.testClaims)
	t.Run("devices", n.testDevices)
	t.Run("disks", n.testDisks)
	t.Run("image volumes", n.testImageVolumes)
	t.Run("images", n.testImages)
	t.Run("access", n.testAccess)
	t.Run("probes", n.testProbes)
	t.Run("ends", n.testEnds)
	t.Run("debug", n.testDebug)
	t.Run("rolling", n.testRolling)
	t.Run("resize", n.testResize)
	t.Run("policies", n.testPolicies)
	t.Run("problems", n.testProblems)
	t.Run("static", n.testStatic)
	t.Run("restart", n.testRestart)
	t.Run("unknown", n.testUnknown)
}

func (n *node) in(t *testing.T) *node {
	copied := *n
	copied.t = t
	return &copied
}

func (n *node) testPod(t *testing.T) {
	n = n.in(t)
	c := shell("echo hello; exec sleep 1000")
	c.Env = []corev1.EnvVar{
		{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "GREETING", Value: "hi from $(POD_IP)"},
	}
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}
	began := time.Now()
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	pod := n.await("one", "ready", time.Minute, ready)
	t.Logf("ready after %v, address %s", time.Since(began), pod.Status.PodIP)
	if pod.Status.Phase != corev1.PodRunning || !strings.HasPrefix(pod.Status.PodIP, "10.222.0.") || pod.Status.HostIP != "192.0.2.1" {
		t.Errorf("status: %s", pod.Status.String())
	}
	if s := pod.Status.ContainerStatuses[0]; !strings.HasPrefix(s.ContainerID, "containerd://") || s.Image != "howdah.test/busybox:1" || !strings.Contains(s.ImageID, "sha256:") {
		t.Errorf("container status: %s", s.String())
	}
	if pod.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("QoS class %s", pod.Status.QOSClass)
	}
	stdout, _, _ := n.run("one", "echo $GREETING; hostname; cat /etc/hosts; cat /etc/resolv.conf; cat /proc/1/cgroup; cat /proc/1/oom_score_adj", "")
	for _, want := range []string{"hi from " + pod.Status.PodIP, "\none\n", pod.Status.PodIP + "\tone", "nameserver 10.96.0.10", "default.svc.cluster.local", "kubepods/burstable/pod" + string(pod.UID)} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for _, text := range []string{"Pulled: Container image \"howdah.test/busybox:1\" already present on machine", "Created: Container created", "Started: Container started"} {
		n.hasEvent("one", text)
	}
	notes, err := os.ReadDir(filepath.Join(n.dir, "cni", "data", "added"))
	if err != nil || len(notes) > 0 {
		t.Errorf("the network's notes are to be made and taken: %v, %v", notes, err)
	}
	// Beside it, one on the node's own network, with a folder of the node.
	host := shell("exec sleep 1000")
	host.VolumeMounts = []corev1.VolumeMount{{Name: "images", MountPath: "/images", ReadOnly: true}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "host"}, Spec: corev1.PodSpec{
		HostNetwork: true, HostPID: true, DNSPolicy: corev1.DNSDefault, Containers: []corev1.Container{host},
		Volumes: []corev1.Volume{{Name: "images", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(n.dir, "images")}}}},
	}})
	if pod := n.await("host", "ready", time.Minute, ready); pod.Status.PodIP != "192.0.2.1" {
		t.Errorf("address %s on the node's network", pod.Status.PodIP)
	}
	if stdout, stderr, _ := n.run("host", "ls /images; touch /images/x", ""); stdout != "images.tar\n" || !strings.Contains(stderr, "Read-only file system") {
		t.Errorf("hostPath: %q, %q", stdout, stderr)
	}
	n.remove("host")
	n.remove("one")
	n.hasEvent("one", "Killing: Stopping container main")
	if _, err := os.Stat(filepath.Join(n.dir, "howdah", "pods", string(pod.UID))); !os.IsNotExist(err) {
		t.Errorf("the pod's folder is left: %v", err)
	}
	left, _ := filepath.Glob("/sys/fs/cgroup/*/howdah-test-*/kubepods/burstable/pod" + string(pod.UID))
	if len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

func (n *node) testStreams(t *testing.T) {
	n = n.in(t)
	c := shell("echo out; echo err >&2; echo page >/tmp/index.html; httpd -p 8080 -h /tmp; exec sleep 1000")
	c.Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/index.html", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	n.await("web", "ready", time.Minute, ready)

	if log := n.log("web", ""); log != "out\nerr\n" && log != "err\nout\n" {
		t.Errorf("log: %q", log)
	}
	if log := n.log("web", "stream=Stderr&timestamps=true"); !strings.HasSuffix(log, "Z err\n") {
		t.Errorf("log of stderr with times: %q", log)
	}
	if log := n.log("web", "container=other"); !strings.Contains(log, "container other is not valid for pod web") {
		t.Errorf("log of an unknown container: %q", log)
	}
	if log := n.log("none", ""); !strings.Contains(log, `pods "none" not found`) {
		t.Errorf("log of an unknown pod: %q", log)
	}
	stdout, stderr, outcome := n.run("web", "cat; echo oops >&2; exit 3", "typed")
	if stdout != "typed" || stderr != "oops\n" || !strings.Contains(outcome, `"reason":"ExitCode","message":"3"`) {
		t.Errorf("exec: %q, %q, %s", stdout, stderr, outcome)
	}
	if _, _, outcome := n.run("web", "true", ""); !strings.Contains(outcome, `"status":"Success"`) {
		t.Errorf("exec of true: %s", outcome)
	}

	forward, err := n.stream("portforward", "web", "ports=8080")
	if err != nil {
		t.Fatal(err)
	}
	open := frame(0, "GET /index.html HTTP/1.0\r\n\r\n", false)
	open.GetFrame().Port = 8080
	bad := frame(2, "", false)
	bad.GetFrame().Port = 9
	for _, f := range []*nodev1.ConnectRequest{open, bad} {
		if err := forward.Send(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := forward.CloseSend(); err != nil {
		t.Fatal(err)
	}
	got := drain(t, forward)
	if !strings.Contains(got[0], "200 OK") || !strings.HasSuffix(got[0], "page\n") || got[1] != "" || !strings.Contains(got[3], "refused") {
		t.Errorf("portforward: %v", got)
	}
	page, err := n.stream("proxy", "web:8080", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, page); got[1] != "page\n" {
		t.Errorf("proxy: %v", got)
	}
	n.remove("web")
}

func (n *node) testCrash(t *testing.T) {
	n = n.in(t)
	c := shell("echo last words >/dev/termination-log; echo try; exit 7")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "crash"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	pod := n.await("crash", "in CrashLoopBackOff", time.Minute, func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	s := pod.Status.ContainerStatuses[0]
	if s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 7 || s.LastTerminationState.Terminated.Message != "last words\n" {
		t.Errorf("status: %s", s.String())
	}
	if want := fmt.Sprintf("back-off 10s restarting failed container=main pod=crash_default(%s)", pod.UID); s.State.Waiting.Message != want {
		t.Errorf("message %q, want %q", s.State.Waiting.Message, want)
	}
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", pod.Status.Phase)
	}
	n.hasEvent("crash", "BackOff: Back-off restarting failed container main in pod crash_default(")
	if log := n.log("crash", "previous=true"); log != "try\n" {
		t.Errorf("previous log: %q", log)
	}
	n.await("crash", "restarted again", time.Minute, func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 2 })
	eventually(t, time.Minute, func() string {
		logs, _ := filepath.Glob(filepath.Join(n.dir, "logs", "default_crash_"+string(pod.UID), "main", "*.log"))
		messages, _ := filepath.Glob(filepath.Join(n.dir, "howdah", "pods", string(pod.UID), "containers", "main", "*.message"))
		if len(logs) != 2 || filepath.Base(logs[0]) != "1.log" || len(messages) != 2 {
			return fmt.Sprintf("files of the last two runs are to be left: %v, %v", logs, messages)
		}
		return ""
	})
	n.remove("crash")
}

func (n *node) testInit(t *testing.T) {
	n = n.in(t)
	always := corev1.ContainerRestartPolicyAlways
	first, side, second := shell(`echo one >/shared/order; echo "FROM='a file'" >/shared/env`), shell("echo side >>/shared/order; exec sleep 1000"), shell("echo two >>/shared/order")
	first.Name, side.Name, second.Name, side.RestartPolicy = "first", "side", "second", &always
	c := shell("until [ $(wc -l </shared/order) = 3 ]; do sleep 0.1; done; cat /shared/order; echo $FROM; sleep 0.3")
	c.Env = []corev1.EnvVar{{Name: "FROM", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "shared", Path: "env", Key: "FROM"}}}}
	mounts := []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	first.VolumeMounts, side.VolumeMounts, second.VolumeMounts, c.VolumeMounts = mounts, mounts, mounts, mounts
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "init"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, InitContainers: []corev1.Container{first, side, second}, Containers: []corev1.Container{c},
		Volumes: []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}})
	pod := n.await("init", "succeeded", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	for i, name := range []string{"first", "side", "second"} {
		if s := pod.Status.InitContainerStatuses[i]; s.Name != name {
			t.Errorf("init container %d is %s", i, s.Name)
		}
	}
	if log := n.log("init", "container=main"); log != "one\nside\ntwo\na file\n" && log != "one\ntwo\nside\na file\n" {
		t.Errorf("order: %q", log)
	}
	n.await("init", "without a running sidecar", time.Minute, func(p *corev1.Pod) bool { return p.Status.InitContainerStatuses[1].State.Terminated != nil })
	n.remove("init")
}
