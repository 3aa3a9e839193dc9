package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeapi "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// mapsUsers reports whether the runtime can give pods users of their own: runc 1.2 and later, on kernels that map the users of mounts.
func (n *node) mapsUsers() bool {
	n.t.Helper()
	node, err := object.For(n.client, object.Node).Get(n.t.Context(), "", nodeName)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, h := range node.Status.RuntimeHandlers {
		if h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil {
			return *h.Features.UserNamespaces
		}
	}
	return false
}

// testUsers runs pods whose root is nobody on the node, and whose files are root's all the same.
func (n *node) testUsers(t *testing.T) {
	n = n.in(t)
	host, shared := false, filepath.Join(n.dir, "shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	pod := func(name string) *corev1.Pod {
		c := shell("echo up; exec sleep 4321")
		c.VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}, {Name: "scratch", MountPath: "/scratch"}, {Name: "memory", MountPath: "/memory"}}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			HostUsers: &host, Containers: []corev1.Container{c},
			Volumes: []corev1.Volume{
				{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: shared}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			},
		}}
	}
	if !n.mapsUsers() {
		n.create(pod("mapped"))
		n.await("mapped", "refused", time.Minute, func(*corev1.Pod) bool {
			return strings.Contains(strings.Join(n.events("mapped"), "\n"), `FailedCreatePodSandBox: Failed to create pod sandbox: RuntimeClass handler "" does not support user namespaces`)
		})
		n.remove("mapped")
		if os.Getenv("HOWDAH_TEST_CONTAINERD") != "" { // the one that the node image has can
			t.Error("the runtime cannot give pods users of their own")
		}
		return
	}
	firsts := map[string]bool{}
	for _, name := range []string{"mapped", "other"} {
		n.create(pod(name))
		n.await(name, "ready", time.Minute, ready)
		stdout, stderr, _ := n.run(name, "id -u; cat /proc/self/uid_map; cat /proc/self/gid_map", "")
		fields := strings.Fields(stdout)
		if len(fields) != 7 || fields[0] != "0" || fields[1] != "0" || fields[3] != "65536" || fields[2] == "0" || fields[5] != fields[2] {
			t.Fatalf("users: %q, %q", stdout, stderr)
		}
		firsts[fields[2]] = true
		stdout, stderr, outcome := n.run(name, "for d in /shared /scratch /memory; do touch $d/"+name+" || exit 1; stat -c %u:%g $d/"+name+"; done; echo x >>/etc/hosts; echo y >/dev/termination-log; stat -c %u /etc/hosts", "")
		if stdout != "0:0\n0:0\n0:0\n0\n" || stderr != "" {
			t.Errorf("in volumes: %q, %q, %s", stdout, stderr, outcome)
		}
		info, err := os.Stat(filepath.Join(shared, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 0 || owner.Gid != 0 {
			t.Errorf("on the node its file is of %d:%d", owner.Uid, owner.Gid)
		}
		if n.processOf("sleep\x004321", fields[2]) == 0 {
			t.Errorf("on the node no process of it is of user %s", fields[2])
		}
	}
	if len(firsts) != 2 {
		t.Errorf("both pods have the same users: %v", firsts)
	}
	// A container that is started anew has the same users.
	if err := syscall.Kill(n.processOf("sleep\x004321", "65536"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.await("mapped", "started anew", time.Minute, func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	if stdout, _, _ := n.run("mapped", "cat /proc/self/uid_map", ""); strings.Join(strings.Fields(stdout), " ") != "0 65536 65536" {
		t.Errorf("after a restart: %q", stdout)
	}
	n.remove("mapped")
	n.remove("other")
}

// processOf returns the process with the command line, of the user, 0 where there is none.
func (n *node) processOf(command, user string) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		info, err := os.Stat(dir)
		if err == nil && strings.Contains(string(line), command) && fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid) == user {
			var pid int
			_, _ = fmt.Sscan(filepath.Base(dir), &pid)
			return pid
		}
	}
	return 0
}

// testClasses runs pods by the handlers of their classes.
func (n *node) testClasses(t *testing.T) {
	n = n.in(t)
	for class, handler := range map[string]string{"second": "second", "missing": "missing"} {
		if _, err := object.For(n.client, object.RuntimeClass).Create(t.Context(), &nodeapi.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Handler: handler}); err != nil {
			t.Fatal(err)
		}
	}
	for class, refusal := range map[string]string{
		"second": "", "missing": `no runtime for "missing" is configured`, "unknown": `RuntimeClass "unknown" not found`,
	} {
		name := "class-" + class
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{RuntimeClassName: &class, Containers: []corev1.Container{shell("exec sleep 1000")}}})
		if refusal == "" {
			n.await(name, "ready", time.Minute, ready)
		} else {
			n.await(name, "refused", time.Minute, func(*corev1.Pod) bool {
				events := strings.Join(n.events(name), "\n")
				return strings.Contains(events, "FailedCreatePodSandBox: Failed to create pod sandbox: ") && strings.Contains(events, refusal)
			})
		}
		n.remove(name)
	}
	node, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range node.Status.RuntimeHandlers {
		names = append(names, h.Name)
	}
	if len(names) > 0 && strings.Join(names, " ") != " runc second" { // containerd 1.6 tells none
		t.Errorf("handlers: %q", names)
	}
}
