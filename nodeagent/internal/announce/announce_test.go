package announce

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// family is the addresses of a test over one family.
type family struct {
	number               int
	ranges, address      string
	node1, node2, client string
}

var families = map[string]family{
	"IPv4": {netlink.FAMILY_V4, "192.0.2.64/26", "192.0.2.64", "192.0.2.11/24", "192.0.2.12/24", "192.0.2.1/24"},
	"IPv6": {netlink.FAMILY_V6, "fd00::40/122", "fd00::40", "fd00::11/64", "fd00::12/64", "fd00::1/64"},
}

// run announces from a namespace until the test ends.
func run(t *testing.T, ns *netnstest.Namespace, node string, f family, alive func() bool) *Announcer {
	t.Helper()
	a, err := New(Config{Node: node, Interface: "eth0", Ranges: []netip.Prefix{netip.MustParsePrefix(f.ranges)}, Alive: alive, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ns.Try(func() error { return a.Run(ctx) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return a
}

func (f family) balanced(node string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", Annotations: map[string]string{object.LoadBalancerNodeAnnotation: node}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: f.address}}
	return s
}

// mac returns the Ethernet address of a namespace's eth0.
func mac(t *testing.T, ns *netnstest.Namespace) string {
	t.Helper()
	var text string
	ns.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err == nil {
			text = l.Attrs().HardwareAddr.String()
		}
		return err
	})
	return text
}

// neighbour returns whom a namespace knows as the holder of the address, "" where that is nobody.
func (f family) neighbour(t *testing.T, ns *netnstest.Namespace) string {
	t.Helper()
	var text string
	ns.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := netlink.NeighList(l.Attrs().Index, f.number)
		for _, n := range list {
			if n.IP.String() == f.address && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
				text = n.HardwareAddr.String()
			}
		}
		return err
	})
	return text
}

// TestOneNodeAnswers has a client find the address at one node, also when that is cut off from the control plane, and at the other when that takes over: by
// what it is told, without asking.
func TestOneNodeAnswers(t *testing.T) {
	t.Parallel()
	for name, f := range families {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOneNodeAnswers(t, f)
		})
	}
}

func testOneNodeAnswers(t *testing.T, f family) {
	wire := netnstest.New(t, "wire")
	node1, node2, client := netnstest.New(t, "node1"), netnstest.New(t, "node2"), netnstest.New(t, "client")
	for i, ns := range []*netnstest.Namespace{node1, node2, client} {
		port := []string{"port0", "port1", "port2"}[i]
		netnstest.Connect(ns, "eth0", wire, port)
		ns.Address("eth0", []string{f.node1, f.node2, f.client}[i])
	}
	wire.Bridge("br0", "port0", "port1", "port2")
	var alive atomic.Bool
	alive.Store(true)
	first, second := run(t, node1, "node1", f, alive.Load), run(t, node2, "node2", f, nil)

	// ask sends something to the address, which makes the client's kernel look for it.
	ask := func() {
		_ = client.Try(func() error {
			c, err := client.Dial("udp", net.JoinHostPort(f.address, "9"), time.Second)
			if err == nil {
				_, _ = c.Write([]byte("x"))
				c.Close()
			}
			return err
		})
	}
	await := func(what string, ns *netnstest.Namespace) {
		t.Helper()
		want := mac(t, ns)
		for deadline := time.Now().Add(time.Minute); f.neighbour(t, client) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the client knows %q, want %q", what, f.neighbour(t, client), want)
			}
			if f.neighbour(t, client) == "" {
				ask()
			}
		}
	}
	ask()
	if got := f.neighbour(t, client); got != "" {
		t.Fatalf("%s answers before it was told to", got)
	}
	for _, a := range []*Announcer{first, second} {
		a.Update(f.balanced("node1"))
	}
	await("the first node", node1)

	// Cut off from the control plane it answers on, until another node says that it has the address.
	forget := func() {
		client.Do(func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, Family: f.number, IP: netip.MustParseAddr(f.address).AsSlice()})
		})
	}
	alive.Store(false)
	forget()
	await("cut off", node1)
	second.Update(f.balanced("node2"))
	for deadline := time.Now().Add(time.Minute); len(first.addresses()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a node that is cut off answers beside another")
		}
	}
	second.Delete(f.balanced("node2"))
	forget()
	ask()
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		if got := f.neighbour(t, client); got != "" {
			t.Fatalf("a node that is cut off answers for another's address: %s", got)
		}
	}

	// The control plane, which hears of it again, gives the address back.
	alive.Store(true)
	first.Delete(f.balanced("node1"))
	first.Update(f.balanced("node1"))
	await("given back", node1)

	for _, a := range []*Announcer{first, second} {
		a.Update(f.balanced("node2"))
	}
	want := mac(t, node2)
	for deadline := time.Now().Add(time.Minute); f.neighbour(t, client) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the second node takes over: the client knows %q, want %q", f.neighbour(t, client), want)
		}
	}

	first.Update(f.balanced("node1"))
	second.Delete(f.balanced("node2"))
	await("back at the first node", node1)
}
