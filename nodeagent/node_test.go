package nodeagent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

const nodeName = "node-1"

// node is a real node: containerd, runc, network, and an agent over an API in memory.
type node struct {
	t      *testing.T
	api    *objecttest.Server
	client *object.Client
	dir    string
	c      *containerd
	agent  *nodeagent.Agent
	trust  *trust // of the HTTPS endpoint
	// streams is an apiserver's connection to the node API.
	streams *grpc.ClientConn
	stop    func()
	wait    func() error // until the agent has ended, and with which error
	// configure, which may be nil, changes how the agent is set up.
	configure func(cfg *nodeagent.Config)
}

func startNode(t *testing.T) *node { return startNodeWith(t, nil) }

func startNodeWith(t *testing.T, configure func(cfg *nodeagent.Config)) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "howdah-node-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // root of pods that have users of their own passes through
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(filepath.Join(dir, "howdah"), unix.MNT_DETACH) // where it is a disk of its own
		_ = os.RemoveAll(dir)
		removeGroups("howdah-test-" + filepath.Base(dir))
	})
	n := &node{t: t, dir: dir, configure: configure}
	n.api, n.client = objecttest.Start(t)
	images := filepath.Join(dir, "images")
	if err := os.Mkdir(images, 0o755); err != nil {
		t.Fatal(err)
	}
	writeImages(t, images)
	n.c = startContainerd(t, dir)
	n.startAgent()
	t.Cleanup(func() { n.stop() })
	// The node IPAM controller's part.
	eventually(t, time.Minute, func() string {
		node, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
		if err != nil {
			return err.Error()
		}
		node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.222.0.0/24", []string{"10.222.0.0/24"}
		if _, err := object.For(n.client, object.Node).Update(t.Context(), node); err != nil {
			return err.Error()
		}
		return ""
	})
	// containerd 1.6, which Debian 12 has, knows CNI up to 1.0.0.
	eventually(t, time.Minute, func() string {
		config, err := os.ReadFile(filepath.Join(dir, "cni", "10-howdah.conflist"))
		if err == nil {
			config = bytes.ReplaceAll(config, []byte(`"1.1.0"`), []byte(`"1.0.0"`))
			err = os.WriteFile(filepath.Join(dir, "cni", "net.d", "10-howdah.conflist"), config, 0o644)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	eventually(t, time.Minute, func() string {
		node, err := object.For(n.client, object.Node).Get(t.Context(), "", nodeName)
		if err != nil {
			return err.Error()
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("the node is not ready: %v", node.Status.Conditions)
	})
	return n
}

// removeGroups removes what a node leaves in every hierarchy of control groups.
func removeGroups(prefix string) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + prefix)
	for _, root := range append(roots, "/sys/fs/cgroup/"+prefix) {
		var groups []string
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for _, group := range slices.Backward(groups) {
			_ = os.Remove(group) // one with a process in it stays
		}
	}
}

func (n *node) startAgent() {
	n.t.Helper()
	n.startAgentOf(n.client)
}

// startAgentOf starts an agent that knows the API by a client.
func (n *node) startAgentOf(client *object.Client) {
	n.t.Helper()
	prefix := "howdah-test-" + filepath.Base(n.dir)
	unified := n.unified()
	if err := os.MkdirAll(unified, 0o755); err != nil {
		n.t.Fatal(err)
	}
	pins := filepath.Join(n.dir, "bpf")
	if err := os.MkdirAll(pins, 0o755); err != nil {
		n.t.Fatal(err)
	}
	var endpoint *nodeagent.Endpoint
	n.trust, endpoint = newTrust(n.t)
	cfg := nodeagent.Config{
		Port: 7443, Endpoint: endpoint,
		NodeName: nodeName, Objects: client, RuntimeEndpoint: n.c.endpoint, ImagesDir: filepath.Join(n.dir, "images"),
		RootDir: filepath.Join(n.dir, "howdah"), LogDir: filepath.Join(n.dir, "logs"), KubeletDir: filepath.Join(n.dir, "kubelet"), CgroupPrefix: prefix,
		ClusterDNS: []string{"10.96.0.10"}, RefreshEvery: time.Second, VolumeStatsEvery: time.Second,
		Manifests: nodeagent.Manifests{Path: n.manifests(), FileEvery: time.Second},
		// The machine is not the node's own: what is left of its memory and disk says nothing of what the tests' pods need.
		EvictionHard: "memory.available<10Mi,nodefs.available<10Mi,nodefs.inodesFree<1k,pid.available<1%", KeepImages: nodeagent.ImageKeep{High: 100},
		Network: &nodeagent.Network{
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.222.0.0/16")}, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
			CNIConfig: filepath.Join(n.dir, "cni", "10-howdah.conflist"), CNIData: filepath.Join(n.dir, "cni", "data"),
			Cgroup: unified, Pins: "/sys/fs/bpf/" + prefix,
		},
	}
	if n.configure != nil {
		n.configure(&cfg)
	}
	agent, err := nodeagent.New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.agent = agent
	ctx, cancel := context.WithCancel(context.Background())
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	agent.Register(server)
	if n.streams, err = listener.Dial(rpc.User{Name: "apiserver", Groups: []string{"howdah:apiservers"}}); err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = task.Run(ctx, agent.Run, func(ctx context.Context) error { return server.ServeUntil(ctx, listener) })
	}()
	n.wait = func() error { <-done; return ended }
	streams := n.streams
	n.stop = func() {
		_ = streams.Close()
		cancel()
		if err := n.wait(); err != nil && !errors.Is(err, nodeagent.ErrShutDown) {
			n.t.Errorf("agent: %v", err)
		}
		n.stop = func() {}
	}
}

// unified is the group that the node's load balancer serves.
func (n *node) unified() string {
	prefix := "howdah-test-" + filepath.Base(n.dir)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return filepath.Join("/sys/fs/cgroup", prefix)
	}
	return filepath.Join("/sys/fs/cgroup/unified", prefix)
}

func (n *node) create(pod *corev1.Pod) *corev1.Pod {
	n.t.Helper()
	pod.Namespace, pod.Spec.NodeName = "default", nodeName
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		grace := int64(1)
		pod.Spec.TerminationGracePeriodSeconds = &grace
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].TerminationMessagePath == "" {
			pod.Spec.Containers[i].TerminationMessagePath = "/dev/termination-log"
		}
	}
	created, err := object.For(n.client, object.Pod).Create(n.t.Context(), pod)
	if err != nil {
		n.t.Fatal(err)
	}
	return created
}

func (n *node) get(name string) *corev1.Pod {
	pod, err := object.For(n.client, object.Pod).Get(context.Background(), "default", name)
	if err != nil {
		return nil
	}
	return pod
}

func (n *node) await(name, what string, within time.Duration, ok func(*corev1.Pod) bool) *corev1.Pod {
	n.t.Helper()
	var pod *corev1.Pod
	eventually(n.t, within, func() string {
		if pod = n.get(name); pod != nil && ok(pod) {
			return ""
		}
		if pod == nil {
			return fmt.Sprintf("pod %s is gone; wanted: %s", name, what)
		}
		return fmt.Sprintf("pod %s is not %s: %s\nevents:\n%s", name, what, pod.Status.String(), strings.Join(n.events(name), "\n"))
	})
	return pod
}

func (n *node) remove(name string) {
	n.t.Helper()
	if err := object.For(n.client, object.Pod).Delete(n.t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, time.Minute, func() string {
		if pod := n.get(name); pod != nil {
			return "pod is still there: " + pod.Status.String()
		}
		return ""
	})
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func shell(script string) corev1.Container {
	return corev1.Container{Name: "main", Image: "howdah.test/busybox:1", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script}}
}

// stream opens a stream into a pod as an apiserver does.
func (n *node) stream(subresource, name, query string) (nodev1.NodeService_ConnectClient, error) {
	n.t.Helper()
	stream, err := nodev1.NewNodeServiceClient(n.streams).Connect(n.t.Context())
	if err != nil {
		return nil, err
	}
	err = stream.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
		Version: "v1", Resource: "pods", Namespace: "default", Name: name, Subresource: subresource, Query: query, Method: "GET", Path: "/",
	}}})
	if err != nil {
		return nil, err
	}
	if subresource == "proxy" {
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	if first.GetAccepted() == nil {
		return nil, fmt.Errorf("the first message is %v", first)
	}
	return stream, nil
}

func frame(channel uint32, data string, end bool) *nodev1.ConnectRequest {
	return &nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: &apiv1.ConnectFrame{Channel: channel, Data: []byte(data), Close: end}}}
}

// drain reads a stream to its end, by channel.
func drain(t *testing.T, stream nodev1.NodeService_ConnectClient) map[uint32]string {
	t.Helper()
	out := map[uint32]string{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("stream: %v (so far %v)", err, out)
		}
		out[m.GetFrame().GetChannel()] += string(m.GetFrame().GetData())
	}
}

// run executes a shell script in a pod.
func (n *node) run(name, script, input string) (stdout, stderr, outcome string) {
	n.t.Helper()
	stream, err := n.stream("exec", name, "container=main&stdin=true&stdout=true&stderr=true&command=sh&command=-c&command="+url.QueryEscape(script))
	if err != nil {
		n.t.Fatalf("exec in %s: %v", name, err)
	}
	if err := stream.Send(frame(0, input, true)); err != nil {
		n.t.Fatal(err)
	}
	out := drain(n.t, stream)
	return out[1], out[2], out[3]
}

func (n *node) log(name, query string) string {
	n.t.Helper()
	stream, err := n.stream("log", name, query)
	if err != nil {
		return "error: " + err.Error()
	}
	return drain(n.t, stream)[1]
}

// logged awaits a container's log: a container that runs may not have written yet.
func (n *node) logged(name, query, want string) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		if log := n.log(name, query); log != want {
			return fmt.Sprintf("the log of %s is %q, not %q", name, log, want)
		}
		return ""
	})
}

// events returns the texts of all events about an object, "reason: message".
func (n *node) events(name string) []string {
	n.t.Helper()
	list, _, err := object.For(n.client, object.Event).List(n.t.Context(), "", metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}

func (n *node) hasEvent(name, text string) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		for _, e := range n.events(name) {
			if strings.Contains(e, text) {
				return ""
			}
		}
		return fmt.Sprintf("no event %q about %s in\n%s", text, name, strings.Join(n.events(name), "\n"))
	})
}
