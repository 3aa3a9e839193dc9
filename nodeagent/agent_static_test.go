package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/cri"
)

// manifest writes a pod that leaves a word of each start in a file of the node, and returns the file's path.
func (n *node) manifest(name, word, more string) (starts string) {
	n.t.Helper()
	starts = filepath.Join(n.dir, "starts-"+name)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1, %s
		containers: [{name: main, image: "howdah.test/busybox:1", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo %s; echo %s >>/out; exec sleep 1000"],
			readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}, volumeMounts: [{name: out, mountPath: /out}]}],
		volumes: [{name: out, hostPath: {path: %q, type: FileOrCreate}}]}}`, name, more, word, word, starts)
	n.write(name+".yaml", text)
	return starts
}

func (n *node) write(name, text string) {
	n.t.Helper()
	if err := os.MkdirAll(n.manifests(), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.manifests(), name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) manifests() string { return filepath.Join(n.dir, "manifests") }

func started(path string) string {
	words, _ := os.ReadFile(path)
	return strings.Join(strings.Fields(string(words)), " ")
}

// runs reports whether the runtime has a running container of the pod.
func (n *node) runs(pod string) bool {
	n.t.Helper()
	conn, err := grpc.NewClient(n.c.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	list, err := runtimeapi.NewRuntimeServiceClient(conn).ListContainers(n.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}, LabelSelector: map[string]string{cri.LabelPodName: pod},
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	return len(list.GetContainers()) > 0
}

// testStatic runs pods of manifests: what is in the API only stands for them.
func (n *node) testStatic(t *testing.T) {
	outer := n
	n = n.in(t)
	const name = "static-" + nodeName
	starts := n.manifest("static", "one", "")
	mirror := n.await(name, "ready", 60*time.Second, ready)
	hash := mirror.Annotations["kubernetes.io/config.hash"]
	owner := metav1.GetControllerOf(mirror)
	if mirror.Annotations[corev1.MirrorPodAnnotationKey] != hash || hash == "" || string(mirror.UID) == hash || owner == nil || owner.Kind != "Node" {
		t.Errorf("mirror: %+v", mirror.ObjectMeta)
	}
	n.logged(name, "", "one\n")
	if stdout, _, _ := n.run(name, "hostname", ""); stdout != name+"\n" {
		t.Errorf("exec: %q", stdout)
	}
	container := mirror.Status.ContainerStatuses[0].ContainerID
	untouched := func(p *corev1.Pod) {
		t.Helper()
		if got := p.Status.ContainerStatuses[0].ContainerID; got != container || started(starts) != "one" {
			t.Errorf("container %s, was %s; started %q", got, container, started(starts))
		}
	}

	// Who deletes the mirror deletes nothing else.
	if err := object.For(n.client, object.Pod).Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := n.await(name, "made again", time.Minute, func(p *corev1.Pod) bool { return p.UID != mirror.UID && ready(p) })
	untouched(again)

	// The agent's next life finds what runs.
	n.stop()
	n.startAgent()
	other := n.manifest("beside", "one", "")
	n.await("beside-"+nodeName, "ready", 60*time.Second, ready)
	kept := n.get(name)
	untouched(kept)
	if kept.UID != again.UID || kept.ResourceVersion != again.ResourceVersion {
		t.Errorf("the mirror was written though nothing changed:\n%s\nwas\n%s", kept.Status.String(), again.Status.String())
	}

	// A life without the API, in which a pod of the node's own network begins.
	n.stop()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:9", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	n.startAgentOf(object.NewClient(conn, "kubelet"))
	alone := n.manifest("alone", "one", "hostNetwork: true, dnsPolicy: Default,")
	// The runtime takes a container back whose start is broken off, so what it has written is not enough.
	eventually(t, 60*time.Second, func() string {
		if started(alone) != "one" || !n.runs("alone-"+nodeName) {
			return "it has not started without the API"
		}
		return ""
	})
	n.stop()
	_ = conn.Close()
	n.startAgent()
	outer.stop, outer.agent, outer.streams = n.stop, n.agent, n.streams
	n.await("alone-"+nodeName, "ready", 60*time.Second, ready)
	untouched(n.get(name))
	if words := started(alone); words != "one" {
		t.Errorf("started %q", words)
	}

	// Another manifest is another pod, one that is wrong is none, and does nothing to the others.
	n.write("wrong.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: wrong}, spec: {}}")
	n.hasEvent(nodeName, "InvalidManifest: manifest "+filepath.Join(n.manifests(), "wrong.yaml")+": invalid pod: spec.containers: Required value")
	n.manifest("static", "two", "")
	changed := n.await(name, "another", 60*time.Second, func(p *corev1.Pod) bool { return p.Annotations["kubernetes.io/config.hash"] != hash && ready(p) })
	if started(starts) != "one two" || started(other) != "one" {
		t.Errorf("started %q and %q", started(starts), started(other))
	}

	// No manifest, no pod.
	if err := os.RemoveAll(n.manifests()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{name, "beside-" + nodeName, "alone-" + nodeName} {
		eventually(t, 60*time.Second, func() string {
			if p := n.get(gone); p != nil {
				return "the mirror is still there: " + p.Status.String()
			}
			return ""
		})
	}
	if _, err := os.Stat(filepath.Join(n.dir, "howdah", "pods", changed.Annotations["kubernetes.io/config.hash"])); !os.IsNotExist(err) {
		t.Errorf("the pod's folder is left: %v", err)
	}
}
