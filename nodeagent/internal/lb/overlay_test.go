package lb

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/route"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// newFarCluster is like newCluster, but a router is between node2 and the others, which knows nothing of pods.
func newFarCluster(t *testing.T, v6 bool) *cluster {
	t.Helper()
	wire, router := netnstest.New(t, "wire"), netnstest.New(t, "router")
	c := &cluster{v6: v6, node1: netnstest.New(t, "node1"), node2: netnstest.New(t, "node2"), pod1: netnstest.New(t, "pod1"), outside: netnstest.New(t, "outside")}
	for i, ns := range []*netnstest.Namespace{c.node1, c.outside, router} {
		netnstest.Connect(ns, "eth0", wire, fmt.Sprint("port", i))
	}
	wire.Bridge("br0", "port0", "port1", "port2")
	netnstest.Connect(c.node2, "eth0", router, "eth1")
	c.node1.Address("eth0", c.at("192.0.2.11/24"))
	c.outside.Address("eth0", c.at("192.0.2.13/24"))
	router.Address("eth0", c.at("192.0.2.1/24"))
	router.Address("eth1", c.at("203.0.113.1/24"))
	c.node2.Address("eth0", c.at("203.0.113.12/24"))
	c.node1.Route(c.at("0.0.0.0/0"), c.at("192.0.2.1"), "")
	c.node2.Route(c.at("0.0.0.0/0"), c.at("203.0.113.1"), "")
	router.Sysctl("ipv4/ip_forward", "1")
	router.Sysctl("ipv6/conf/all/forwarding", "1")
	c.connectPod()
	c.node2.Address("lo", c.at("10.77.2.2/32"))

	nodes := []*corev1.Node{nodeObject(testNode, c.at("192.0.2.11")), nodeObject("node2", c.at("203.0.113.12"))}
	nodes[0].Spec.PodCIDRs, nodes[1].Spec.PodCIDRs = []string{c.at("10.77.1.0/24")}, []string{c.at("10.77.2.0/24")}
	for i, ns := range []*netnstest.Namespace{c.node1, c.node2} {
		ns.Sysctl("ipv4/conf/all/rp_filter", "1")
		applied := make(chan struct{}, 1)
		k := route.NewKeeper(route.Config{
			Node: nodes[i].Name, Ranges: route.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix(c.at("10.77.0.0/16"))}}, Overlay: route.OverlayAuto,
			Local: netip.MustParseAddr(nodes[i].Status.Addresses[0].Address), MTU: 1430, Applied: func() {
				select {
				case applied <- struct{}{}:
				default:
				}
			},
		})
		for _, node := range nodes {
			k.Update(node)
		}
		k.Synced()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- ns.Try(func() error { return k.Run(ctx) }) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		select {
		case <-applied:
		case <-time.After(time.Minute):
			t.Fatal("the routes do not stand")
		}
	}
	c.echo(t)
	return c
}

// A NodePort has backends on this node and on one of another network. It is asked from outside, by the uplink, and by a pod of the other node, whose packets
// come through the tunnel.
func TestNodePortOverTheOverlay(t *testing.T) {
	t.Run("IPv4, tcx", func(t *testing.T) { testNodePortOverTheOverlay(t, false, false) })
	t.Run("IPv6, tc", func(t *testing.T) { testNodePortOverTheOverlay(t, true, true) })
}

func testNodePortOverTheOverlay(t *testing.T, v6, withoutTCX bool) {
	c := newFarCluster(t, v6)
	n := newNode(t, c.node1, "eth0")
	n.at.NodeAddresses, n.at.Overlay, n.at.WithoutTCX = []netip.Addr{netip.MustParseAddr(c.at("192.0.2.11"))}, route.TunnelLink, withoutTCX
	serveBulk(t, c.pod1, c.at("10.77.1.2:8082"))
	serveBulk(t, c.node2, c.at("10.77.2.2:8082"))
	big := c.spread("big")
	big.Ports[0].Port = new(int32(8082))
	web := nodePort("web", c.at("10.96.0.10"), 30080, 30053)
	n.start(web, c.spread("web"), nodePort("big", c.at("10.96.0.11"), 30081, 30054), big,
		nodeObject(testNode, c.at("192.0.2.11")), nodeObject("node2", c.at("203.0.113.12")))
	moveTo(t, cgroup2(t))
	even := map[string]int{"local": 10, "remote": 10}
	for network, address := range map[string]string{"tcp": c.at("192.0.2.11:30080"), "udp": c.at("192.0.2.11:30053")} {
		if got := answers(t, c.outside, network, address, 20); !maps.Equal(got, even) {
			t.Errorf("%s from outside: %v", network, got)
		}
	}
	for range 4 {
		if err := bulk(c, c.at("192.0.2.11:30081")); err != nil {
			t.Errorf("bulk: %v", err)
		}
	}
	fromFarPod := func() map[string]int {
		got := map[string]int{}
		for range 20 {
			var conn net.Conn
			c.node2.Do(func() (err error) {
				d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.at("10.77.2.2"))}}
				conn, err = d.Dial("tcp", c.at("192.0.2.11:30080"))
				return err
			})
			name, err := netnstest.Talk(conn, patience)
			if err != nil {
				t.Fatal(err)
			}
			got[name]++
			conn.Close()
		}
		return got
	}
	if got := fromFarPod(); !maps.Equal(got, even) {
		t.Errorf("from a pod of the other node: %v", got)
	}
	web = web.DeepCopy()
	web.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	n.apply(web)
	if got := fromFarPod(); !maps.Equal(got, map[string]int{"local": 20}) {
		t.Errorf("from a pod of the other node, with the policy Local: %v", got)
	}
	if got := answers(t, c.outside, "tcp", c.at("192.0.2.11:30080"), 20); !maps.Equal(got, map[string]int{"local": 20}) {
		t.Errorf("from outside, with the policy Local: %v", got)
	}
}
