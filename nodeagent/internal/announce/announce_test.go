package announce

import (
	"context"
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

// run announces from a namespace until the test ends.
func run(t *testing.T, ns *netnstest.Namespace, node string, alive func() bool) *Announcer {
	t.Helper()
	a, err := New(Config{Node: node, Interface: "eth0", Ranges: []netip.Prefix{netip.MustParsePrefix("192.0.2.64/26")}, Alive: alive, Clock: clock.RealClock{}})
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

func balanced(node string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", Annotations: map[string]string{object.LoadBalancerNodeAnnotation: node}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.64"}}
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
func neighbour(t *testing.T, ns *netnstest.Namespace) string {
	t.Helper()
	var text string
	ns.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		list, err := netlink.NeighList(l.Attrs().Index, netlink.FAMILY_V4)
		for _, n := range list {
			if n.IP.String() == "192.0.2.64" && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
				text = n.HardwareAddr.String()
			}
		}
		return err
	})
	return text
}

// TestOneNodeAnswers has a client find the address at one node, and at the other when that takes over: by what it is told, without asking.
func TestOneNodeAnswers(t *testing.T) {
	t.Parallel()
	wire := netnstest.New(t, "wire")
	node1, node2, client := netnstest.New(t, "node1"), netnstest.New(t, "node2"), netnstest.New(t, "client")
	for i, ns := range []*netnstest.Namespace{node1, node2, client} {
		port := []string{"port0", "port1", "port2"}[i]
		netnstest.Connect(ns, "eth0", wire, port)
		ns.Address("eth0", []string{"192.0.2.11/24", "192.0.2.12/24", "192.0.2.1/24"}[i])
	}
	wire.Bridge("br0", "port0", "port1", "port2")
	var alive atomic.Bool
	alive.Store(true)
	first, second := run(t, node1, "node1", alive.Load), run(t, node2, "node2", nil)

	// ask sends something to the address, which makes the client's kernel look for it.
	ask := func() {
		_ = client.Try(func() error {
			c, err := client.Dial("udp", "192.0.2.64:9", time.Second)
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
		for deadline := time.Now().Add(time.Minute); neighbour(t, client) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the client knows %q, want %q", what, neighbour(t, client), want)
			}
			if neighbour(t, client) == "" {
				ask()
			}
		}
	}
	ask()
	if got := neighbour(t, client); got != "" {
		t.Fatalf("%s answers before it was told to", got)
	}
	for _, a := range []*Announcer{first, second} {
		a.Update(balanced("node1"))
	}
	await("the first node", node1)

	for _, a := range []*Announcer{first, second} {
		a.Update(balanced("node2"))
	}
	want := mac(t, node2)
	for deadline := time.Now().Add(time.Minute); neighbour(t, client) != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the second node takes over: the client knows %q, want %q", neighbour(t, client), want)
		}
	}

	first.Update(balanced("node1"))
	second.Delete(balanced("node2"))
	await("back at the first node", node1)
	alive.Store(false)
	client.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, Family: netlink.FAMILY_V4, IP: netip.MustParseAddr("192.0.2.64").AsSlice()})
	})
	ask()
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		if got := neighbour(t, client); got != "" {
			t.Fatalf("a node that is cut off answers: %s", got)
		}
	}
}
