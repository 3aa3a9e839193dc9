package lb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

const testNode = "node1"

var counter atomic.Int64

// patience is how long a test waits for an answer.
const patience = time.Minute

// node is a balancer that works for real: in a namespace of its own, on a cgroup that the test process is in.
type node struct {
	t      *testing.T
	ns     *netnstest.Namespace
	at     Attachment
	stop   func()
	lb     *Balancer
	config func(*Config)
	wrap   func(Maps) Maps
}

// newNode prepares cgroup and bpffs; start runs a balancer. Tests with a node cannot run in parallel: the test
// process is in one cgroup at a time.
func newNode(t *testing.T, ns *netnstest.Namespace, uplinks ...string) *node {
	t.Helper()
	cgroup := filepath.Join(cgroup2(t), fmt.Sprintf("howdah-lb-test-%d-%d", os.Getpid(), counter.Add(1)))
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Fatalf("make a cgroup2 (root is needed): %v", err)
	}
	home := moveTo(t, cgroup)
	pins := t.TempDir()
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Fatalf("mount a bpf file system (CONFIG_BPF_SYSCALL): %v", err)
	}
	n := &node{t: t, ns: ns, at: Attachment{Cgroup: cgroup, Pins: filepath.Join(pins, "lb"), Uplinks: uplinks}}
	t.Cleanup(func() {
		if n.stop != nil {
			n.stop()
		}
		if err := errors.Join(Detach(n.at.Pins), unix.Unmount(pins, 0)); err != nil {
			t.Errorf("clean up: %v", err)
		}
		moveTo(t, home)
		if err := os.Remove(cgroup); err != nil {
			t.Errorf("remove cgroup: %v", err)
		}
	})
	return n
}

func cgroup2(t *testing.T) string {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	t.Fatal("no cgroup2 is mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified")
	return ""
}

// moveTo moves the test process and returns the cgroup that it was in.
func moveTo(t *testing.T, cgroup string) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	home := ""
	for _, line := range splitLines(string(data)) {
		if len(line) > 3 && line[:3] == "0::" {
			home = filepath.Join(cgroup2(t), line[3:])
		}
	}
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(fmt.Sprint(os.Getpid())), 0o644); err != nil {
		t.Fatalf("enter cgroup: %v", err)
	}
	return home
}

func splitLines(s string) []string {
	var out []string
	for len(s) > 0 {
		line := s
		for i, c := range s {
			if c == '\n' {
				line = s[:i]
				break
			}
		}
		out = append(out, line)
		s = s[min(len(s), len(line)+1):]
	}
	return out
}

// start runs a balancer over these objects and waits until it works.
func (n *node) start(objects ...any) {
	n.t.Helper()
	cfg := Config{Node: Node{Name: testNode}, At: n.at, Log: slog.New(slog.DiscardHandler)}
	if n.config != nil {
		n.config(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.wrap != nil {
		b.wrap = n.wrap
	}
	for _, o := range objects {
		b.Update(context.Background(), o)
	}
	b.Synced()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.ns.Try(func() error { return b.Run(ctx) }) }()
	select {
	case <-b.Ready():
	case err := <-ended:
		cancel()
		n.t.Fatalf("balancer ended: %v", err)
	case <-time.After(time.Minute):
		cancel()
		n.t.Fatal("balancer does not become ready")
	}
	n.lb = b
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("balancer: %v", err)
		}
		n.stop = nil
	}
}

// apply gives an object to the balancer and waits until the maps have it.
func (n *node) apply(objects ...any) {
	n.t.Helper()
	for _, o := range objects {
		n.lb.Update(context.Background(), o)
	}
	n.settled()
}

func (n *node) remove(objects ...any) {
	n.t.Helper()
	for _, o := range objects {
		n.lb.Delete(context.Background(), o)
	}
	n.settled()
}

// settled waits until the balancer has written all that it was given.
func (n *node) settled() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.lb.Settled(ctx); err != nil {
		n.t.Fatalf("balancer did not settle: %v", err)
	}
}

// answers asks n times and counts who answered. All connections stay open until the end: a port that a client uses again leads its datagrams to the
// backend that it had before, and then the counts are uneven.
func answers(t *testing.T, ns *netnstest.Namespace, network, address string, n int) map[string]int {
	t.Helper()
	out := map[string]int{}
	for range n {
		conn, err := ns.Dial(network, address, patience)
		if err != nil {
			t.Fatalf("%s %s: %v", network, address, err)
		}
		defer conn.Close()
		name, err := netnstest.Talk(conn, patience)
		if err != nil {
			t.Fatalf("%s %s: %v", network, address, err)
		}
		out[name]++
	}
	return out
}

func service(name, clusterIP string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}, Ports: ports},
	}
}

func tcp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: "tcp", Port: port, Protocol: corev1.ProtocolTCP}
}

func udp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: "udp", Port: port, Protocol: corev1.ProtocolUDP}
}

// endpointSlice has the target port for both of the ports above, and the addresses as ready endpoints on node1.
func endpointSlice(service string, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("tcp"), Port: new(port), Protocol: new(corev1.ProtocolTCP)},
			{Name: new("udp"), Port: new(port), Protocol: new(corev1.ProtocolUDP)},
		},
	}
	for _, a := range addresses {
		if net.ParseIP(a).To4() == nil {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{a},
			NodeName:   new(testNode),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		})
	}
	return s
}

func nodeObject(name, address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func podObject(name, address string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: testNode, Containers: []corev1.Container{{Name: "c", Ports: ports}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}},
	}
}

// inside runs f with the test process on the node, which it has left: its sockets are balanced.
func (n *node) inside(f func()) {
	n.t.Helper()
	outside := moveTo(n.t, n.at.Cgroup)
	defer moveTo(n.t, outside)
	f()
}

// state reads what is in the maps now, through the pins, as a restarted agent would.
func (n *node) state() (st *state, err error) {
	err = n.ns.Try(func() error {
		d, _, err := loadDatapath(n.at)
		if err != nil {
			return err
		}
		defer d.close()
		st, err = readState(d.maps())
		return err
	})
	return st, err
}

// atInterface says whether programs of a pod are at an interface of the node.
func (n *node) atInterface(name string) (there bool) {
	n.t.Helper()
	n.ns.Do(func() error {
		at, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if !n.at.WithoutTCX {
			result, err := link.QueryPrograms(link.QueryOptions{Target: at.Attrs().Index, Attach: ebpf.AttachTCXIngress})
			there = err == nil && len(result.Programs) > 0
			return err
		}
		filters, err := netlink.FilterList(at, netlink.HANDLE_MIN_INGRESS)
		there = len(filters) > 0
		return err
	})
	return there
}
