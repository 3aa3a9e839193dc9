package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/lb"
	"howdah.dev/nodeagent/internal/route"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// The parts together, as the agent wires them: pods from the plugin on two nodes, routes and fences by the keeper, and
// a service over both nodes, used from a pod, from the host and from outside.
func TestPluginRoutesAndServicesTogether(t *testing.T) {
	wire, outside := netnstest.New(t, "wire"), netnstest.New(t, "outside")
	netnstest.Connect(outside, "eth0", wire, "p0")
	outside.Address("eth0", "192.0.2.99/24")
	var nodes []*corev1.Node
	var callers []*caller
	for i := 1; i <= 2; i++ {
		c := newCaller(t, fmt.Sprintf("10.77.%d.0/24", i))
		netnstest.Connect(c.node, "eth0", wire, fmt.Sprint("p", i))
		c.node.Address("eth0", fmt.Sprintf("192.0.2.1%d/24", i))
		c.node.Route("0.0.0.0/0", "192.0.2.99", "")
		callers = append(callers, c)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node", i)}, Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.77.%d.0/24", i)}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.1%d", i)}}
		nodes = append(nodes, n)
	}
	wire.Bridge("br0", "p0", "p1", "p2")
	ranges := route.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.77.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
	}
	var pods []*netnstest.Namespace
	for i, c := range callers {
		ready := make(chan bool, 8)
		k := route.NewKeeper(route.Config{Node: nodes[i].Name, Ranges: ranges, PodCIDRs: func([]netip.Prefix) error { ready <- true; return nil }})
		for _, n := range nodes {
			k.Update(n)
		}
		k.Synced()
		background(t, c.node, k.Run)
		<-ready
		pod := netnstest.New(t, "pod")
		address := c.add("web", pod).IPs[0].Address.IP.String()
		greet(t, pod, address+":8080", address)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &nodes[i].Name})
		pods = append(pods, pod)
	}
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10",
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}

	cgroup, pins, leave := enterCgroup(t)
	var uplink route.Uplink
	callers[0].node.Do(func() (err error) { uplink, err = route.FindUplink(); return err })
	if uplink.Name != "eth0" || !slices.Contains(uplink.Addresses, netip.MustParseAddr("192.0.2.11")) {
		t.Fatalf("uplink %+v", uplink)
	}
	b, err := lb.New(lb.Config{
		Node:           lb.Node{Name: "node1"},
		At:             lb.Attachment{Cgroup: cgroup, Pins: pins, Uplinks: []string{uplink.Name}, NodeAddresses: uplink.Addresses[:1]},
		LocalAddresses: route.LocalAddresses,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []any{web, slice, nodes[0], nodes[1]} {
		b.Update(context.Background(), o)
	}
	b.Synced()
	background(t, callers[0].node, b.Run)
	select {
	case <-b.Ready():
	case <-time.After(time.Minute):
		t.Fatal("balancer not ready")
	}
	check := func(name string, from *netnstest.Namespace, address string) {
		t.Helper()
		got := map[string]int{}
		for range 10 {
			got[hear(t, from, address)]++
		}
		if len(got) != 2 || got["10.77.1.2"] != 5 || got["10.77.2.2"] != 5 {
			t.Errorf("%s: %v", name, got)
		}
	}
	check("cluster IP from a pod", pods[0], "10.96.0.10:80")
	check("cluster IP from the host", callers[0].node, "10.96.0.10:80")
	check("node port from a pod", pods[0], "192.0.2.12:30080")
	began := time.Now()
	err = pods[0].Try(func() error { _, err := net.DialTimeout("tcp", "10.96.0.99:80", 5*time.Second); return err })
	if !errors.Is(err, unix.EHOSTUNREACH) || time.Since(began) > 2500*time.Millisecond { // neighbours that do not answer take 3 s
		t.Errorf("a cluster IP that nobody has: %v after %s", err, time.Since(began))
	}
	leave()
	check("node port from outside", outside, "192.0.2.11:30080")
}

// background runs f in a namespace until the test ends.
func background(t *testing.T, ns *netnstest.Namespace, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ns.Try(func() error { return f(ctx) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func greet(t *testing.T, ns *netnstest.Namespace, address, name string) {
	t.Helper()
	var l net.Listener
	ns.Do(func() (err error) { l, err = net.Listen("tcp", address); return err })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, name)
			c.Close()
		}
	}()
}

func hear(t *testing.T, from *netnstest.Namespace, address string) string {
	t.Helper()
	var c net.Conn
	from.Do(func() (err error) { c, err = net.DialTimeout("tcp", address, time.Minute); return err })
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	var name string
	if _, err := fmt.Fscanln(c, &name); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return name
}

// enterCgroup moves the test process to a cgroup2 of its own, until leave or the end, and mounts a bpffs.
func enterCgroup(t *testing.T) (cgroup, pins string, leave func()) {
	t.Helper()
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	cgroup = filepath.Join(root, fmt.Sprintf("howdah-cni-test-%d", os.Getpid()))
	home := root
	if data, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for line := range strings.SplitSeq(string(data), "\n") {
			if path, ok := strings.CutPrefix(line, "0::"); ok {
				home = filepath.Join(root, path)
			}
		}
	}
	move := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(os.Getpid())), 0o644); err != nil {
			t.Fatalf("enter cgroup: %v", err)
		}
	}
	mount := t.TempDir()
	if err := errors.Join(os.Mkdir(cgroup, 0o755), unix.Mount("bpf", mount, "bpf", 0, "")); err != nil {
		t.Fatalf("make a cgroup2 and mount a bpf file system (root is needed): %v", err)
	}
	move(cgroup)
	pins = filepath.Join(mount, "lb")
	t.Cleanup(func() {
		move(home)
		if err := errors.Join(lb.Detach(pins), unix.Unmount(mount, 0), os.Remove(cgroup)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return cgroup, pins, func() { move(home) }
}
