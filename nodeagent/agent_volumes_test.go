package nodeagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"howdah.dev/kit/object"
)

func (n *node) testVolumes(t *testing.T) {
	n = n.in(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"key": "value"}}
	cm, err := object.For(n.client, object.ConfigMap).Create(t.Context(), cm)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"password": []byte("hush")}}
	if _, err := object.For(n.client, object.Secret).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c := shell("exec sleep 1000")
	group, user, seconds := int64(2000), int64(1000), int64(3600)
	c.Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "password"}}}}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "cm", MountPath: "/cm"}, {Name: "s", MountPath: "/s"}, {Name: "all", MountPath: "/all"},
		{Name: "empty", MountPath: "/empty"}, {Name: "empty", MountPath: "/sub", SubPath: "a/b"}, {Name: "cm", MountPath: "/one", SubPath: "key"},
		{Name: "memory", MountPath: "/memory"},
	}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vol", Labels: map[string]string{"app": "x"}}, Spec: corev1.PodSpec{
		ServiceAccountName: "default", Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group},
		Volumes: []corev1.Volume{
			{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
			}}}},
		},
	}})
	pod := n.await("vol", "ready", time.Minute, ready)
	stdout, stderr, _ := n.run("vol", "cat /cm/key; echo; cat /s/password; echo $PASSWORD; cat /all/token; echo; cat /all/labels; echo; echo data >/sub/f && cat /empty/a/b/f; cat /one; echo; id; touch /memory/x && stat -c %g /empty /memory/x; grep -c tmpfs /proc/mounts >/dev/null && echo counted", "")
	for _, want := range []string{"value\n", "hushhush\n", "token-default-", `app="x"`, "data\n", "uid=1000", "2000\n2000\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
		}
	}
	eventually(t, time.Minute, func() string {
		summary := n.ask("/stats/summary")
		for _, name := range []string{"cm", "s", "empty", "memory", "all"} {
			if !strings.Contains(summary, `"name":"`+name+`"`) {
				return "the summary tells nothing of the volume " + name + ": " + summary
			}
		}
		return ""
	})
	cm.Data["key"], cm.Data["more"] = "changed", "new"
	if _, err := object.For(n.client, object.ConfigMap).Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		stdout, stderr, _ := n.run("vol", "cat /cm/key /cm/more", "")
		if stdout != "changednew" {
			return "the volume says " + stdout + stderr
		}
		return ""
	})
	n.remove("vol")
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), string(pod.UID)) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
}

// testImageVolumes needs a containerd that mounts images and folders in them: 2.2 or later.
func (n *node) testImageVolumes(t *testing.T) {
	n = n.in(t)
	registered, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	runtime := strings.TrimPrefix(registered.Status.NodeInfo.ContainerRuntimeVersion, "containerd://")
	if version, err := utilversion.ParseSemantic(strings.TrimPrefix(runtime, "v")); err != nil || version.LessThan(utilversion.MustParseSemantic("2.2.0")) {
		t.Skipf("containerd %s does not mount folders of images", runtime)
	}
	c := shell("exec sleep 1000")
	other := shell("exec sleep 1000")
	other.Name = "other"
	c.VolumeMounts = []corev1.VolumeMount{{Name: "image", MountPath: "/image"}, {Name: "image", MountPath: "/sub", SubPath: "etc"}, {Name: "again", MountPath: "/again"}}
	other.VolumeMounts = c.VolumeMounts[:1]
	picture := func(reference string) corev1.VolumeSource {
		return corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: corev1.PullIfNotPresent}}
	}
	volumes := []corev1.Volume{
		{Name: "image", VolumeSource: picture("howdah.test/busybox:1")}, {Name: "again", VolumeSource: picture("howdah.test/busybox:1")},
		{Name: "unused", VolumeSource: picture("localhost/invalid")},
	}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "image"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c, other}, Volumes: volumes}})
	pod := n.await("image", "ready", time.Minute, ready)
	stdout, stderr, _ := n.run("image", "cat /image/etc/passwd | grep -c root; cat /sub/passwd | grep -c user; ls /again; touch /image/x || touch /sub/x", "")
	if !strings.HasPrefix(stdout, "1\n1\nbin\n") || strings.Count(stderr, "Read-only file system") != 2 {
		t.Errorf("%q, %q", stdout, stderr)
	}
	if mounts := pod.Status.ContainerStatuses[0].VolumeMounts; len(mounts) != 3 || mounts[1].Name != "image" || mounts[1].MountPath != "/sub" {
		t.Errorf("status of the mounts: %v", mounts)
	}
	n.remove("image")

	c.VolumeMounts = []corev1.VolumeMount{{Name: "image", MountPath: "/image", SubPath: "none"}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}, Volumes: volumes}})
	waits := func(reason string) func(p *corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == reason
		}
	}
	pod = n.await("nowhere", "waiting for a folder that the image has not", time.Minute, waits("CreateContainerError"))
	if message := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(message, "ImageVolumeMountFailed") {
		t.Errorf("message %q", message)
	}
	n.remove("nowhere")

	c.VolumeMounts = []corev1.VolumeMount{{Name: "unused", MountPath: "/image"}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "absent"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}, Volumes: volumes}})
	n.await("absent", "backing off", 60*time.Second, waits("ImagePullBackOff"))
	n.remove("absent")
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), "image-volumes") {
		t.Errorf("mounts are left:\n%s", mounts)
	}
}

func (n *node) testProbes(t *testing.T) {
	n = n.in(t)
	c := shell("touch /tmp/live; exec sleep 1000")
	probe := func(script string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}, PeriodSeconds: 1, FailureThreshold: 1}
	}
	c.StartupProbe = probe("test -f /tmp/live")
	c.StartupProbe.FailureThreshold = 30
	c.ReadinessProbe = probe("test -f /tmp/ready || { echo not yet; false; }")
	c.LivenessProbe = probe("test -f /tmp/live")
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	n.await("probe", "running", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	n.hasEvent("probe", "Unhealthy: Readiness probe failed: not yet")
	if pod := n.get("probe"); ready(pod) {
		t.Error("ready before its probe says so")
	}
	n.run("probe", "touch /tmp/ready", "")
	n.await("probe", "ready", time.Minute, ready)
	n.run("probe", "rm /tmp/live 2>/dev/null || busybox rm /tmp/live", "")
	n.await("probe", "restarted", time.Minute, func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 })
	n.hasEvent("probe", "Unhealthy: Liveness probe failed: ")
	n.hasEvent("probe", "Killing: Container main failed liveness probe, will be restarted")
	n.remove("probe")
}

// testClaims gives a folder of the node to a pod, to its successor, read-only to another, and takes it when the volume goes. The parts of the control
// plane (binding, provisioning) are written by hand.
func (n *node) testClaims(t *testing.T) {
	n = n.in(t)
	claims, volumes := object.For(n.client, object.PersistentVolumeClaim), object.For(n.client, object.PersistentVolume)
	claim, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}})
	if err != nil {
		t.Fatal(err)
	}
	name := "pvc-" + string(claim.UID)
	folder := filepath.Join(n.dir, "local-path", name)
	made := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{object.LocalPathNodeLabel: nodeName}, Finalizers: []string{object.LocalPathFinalizer},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": object.LocalPathProvisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "kept", UID: claim.UID}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "example.com/place", Operator: corev1.NodeSelectorOpIn, Values: []string{"here"}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	if made, err = volumes.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	pod := func(name string, readOnly bool) *corev1.Pod {
		c := shell("exec sleep 1000")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "data", MountPath: "/sub", SubPath: "a/b"}}
		user, group := int64(1000), int64(2000)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "kept", ReadOnly: readOnly}}}},
		}}
	}
	n.create(pod("first", false))
	n.hasEvent("first", "FailedMount: Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC default/kept: PVC is not bound")
	// The node has the volume's label since a moment, long after the agent's last report of it.
	label := []byte(`{"metadata":{"labels":{"example.com/place":"here"}}}`)
	if _, err := object.For(n.client, object.Node).Patch(t.Context(), "", nodeName, types.MergePatchType, label, ""); err != nil {
		t.Fatal(err)
	}
	claim.Spec.VolumeName, claim.Status.Phase = name, corev1.ClaimBound
	if claim, err = claims.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase = corev1.ClaimBound
	if _, err = claims.UpdateStatus(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	n.await("first", "ready", 60*time.Second, ready)
	if stdout, stderr, _ := n.run("first", "echo kept >/data/f; echo below >/sub/g; stat -c %g /data /data/f", ""); stdout != "2000\n2000\n" {
		t.Errorf("%s%s", stdout, stderr)
	}
	n.remove("first")
	n.create(pod("second", true))
	n.await("second", "ready", time.Minute, ready)
	if stdout, stderr, _ := n.run("second", "cat /data/f /sub/g; touch /data/x || touch /sub/x", ""); stdout != "kept\nbelow\n" || strings.Count(stderr, "Read-only file system") != 2 {
		t.Errorf("%s%s", stdout, stderr)
	}
	made.Status.Phase = corev1.VolumeReleased
	if _, err := volumes.UpdateStatus(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if err := volumes.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, _ := n.run("second", "cat /data/f", ""); stdout != "kept\n" {
		t.Errorf("the volume of a pod that runs: %s%s", stdout, stderr)
	}
	n.remove("second")
	eventually(t, time.Minute, func() string {
		if _, err := volumes.Get(t.Context(), "", name); err == nil {
			return "the volume is still there"
		}
		if _, err := os.Stat(folder); err == nil {
			return "the folder is still there"
		}
		return ""
	})
	if err := claims.Delete(t.Context(), "default", "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
