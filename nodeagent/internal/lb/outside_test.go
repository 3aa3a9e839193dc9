package lb

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/nodeagent/internal/route"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// cluster is two nodes and a machine outside on one wire. node1 runs the balancer and has a pod; node2 has one
// and knows nothing of services.
type cluster struct {
	node1, node2, pod1, outside *netnstest.Namespace
	withoutTCX, v6              bool
}

// at gives an address of the cluster, with its port or the length of its prefix. Tests name them as IPv4 has them; on a wire of IPv6, 192.0.2.11 is fd00::192:0:2:11.
func (c *cluster) at(text string) string {
	if !c.v6 {
		return text
	}
	v6 := func(ip string) string { return "fd00::" + strings.ReplaceAll(ip, ".", ":") }
	if p, err := netip.ParsePrefix(text); err == nil {
		bits := 64 + p.Bits()/8*16 // each number has 16 of them, of which the first eight are none of an address
		switch {
		case p.Bits() == 0:
			return "::/0"
		case p.Bits()%8 != 0:
			bits += 8 + p.Bits()%8
		}
		return fmt.Sprintf("%s/%d", v6(p.Addr().String()), bits)
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		return net.JoinHostPort(v6(host), port)
	}
	return v6(text)
}

// onEachHook runs a test with both ways to meet packets at the uplink, over IPv4, and over IPv6 with the first. The programs are the same.
func onEachHook(t *testing.T, test func(*testing.T, *cluster)) {
	t.Run("tcx", func(t *testing.T) { overEachFamily(t, test) })
	t.Run("tc", func(t *testing.T) { withTC(t, false, test) })
}

// withTC runs a test with filters of tc.
func withTC(t *testing.T, v6 bool, test func(*testing.T, *cluster)) {
	c := newCluster(t, v6)
	c.withoutTCX = true
	test(t, c)
}

// overEachFamily runs a test on a wire of IPv4 and on one of IPv6.
func overEachFamily(t *testing.T, test func(*testing.T, *cluster)) {
	t.Run("IPv4", func(t *testing.T) { test(t, newCluster(t, false)) })
	t.Run("IPv6", func(t *testing.T) { test(t, newCluster(t, true)) })
}

func newCluster(t *testing.T, v6 bool) *cluster {
	t.Helper()
	wire := netnstest.New(t, "wire")
	c := &cluster{v6: v6, node1: netnstest.New(t, "node1"), node2: netnstest.New(t, "node2"), pod1: netnstest.New(t, "pod1"), outside: netnstest.New(t, "outside")}
	for i, ns := range []*netnstest.Namespace{c.node1, c.node2, c.outside} {
		port := fmt.Sprint("port", i)
		netnstest.Connect(ns, "eth0", wire, port)
		ns.Address("eth0", c.at(fmt.Sprintf("192.0.2.1%d/24", i+1)))
	}
	wire.Bridge("br0", "port0", "port1", "port2")
	c.connectPod()
	c.node1.Route(c.at("10.77.2.0/24"), c.at("192.0.2.12"), "")
	c.node2.Address("lo", c.at("10.77.2.2/32"))
	c.node2.Route(c.at("10.77.1.0/24"), c.at("192.0.2.11"), "")
	c.outside.Route(c.at("198.51.100.0/24"), c.at("192.0.2.11"), "") // external addresses are routed to node1
	c.node1.Do(route.NewMasquerade(
		[]netip.Prefix{netip.MustParsePrefix(c.at("10.77.1.0/24"))},
		route.Ranges{Pods: []netip.Prefix{netip.MustParsePrefix(c.at("10.77.0.0/16"))}},
		[]netip.Addr{netip.MustParseAddr(c.at("192.0.2.11")), netip.MustParseAddr(c.at("192.0.2.12"))}).Apply)
	c.echo(t)
	return c
}

// connectPod has node1's pod on a link of its own.
func (c *cluster) connectPod() {
	netnstest.Connect(c.node1, "pod1", c.pod1, "eth0")
	c.linkPod(c.pod1, "pod1", "10.77.1.2")
}

// linkPod gives a pod of node1, by the node's end of its link, an address and its routes.
func (c *cluster) linkPod(pod *netnstest.Namespace, name, address string) {
	gateway, link := "192.0.2.11", ""
	if c.v6 {
		// The pod asks the node's end of its link for its gateway, and that answers for addresses of its own alone.
		gateway, link = "fe80::1", "eth0"
		c.node1.Address(name, "fe80::1/128")
		c.node1.Sysctl("ipv6/conf/all/forwarding", "1")
	} else {
		c.node1.Sysctl("ipv4/ip_forward", "1")
	}
	c.node1.Route(c.at(address+"/32"), "", name)
	pod.Address("eth0", c.at(address+"/32"))
	pod.Route(fmt.Sprintf("%s/%d", gateway, netip.MustParseAddr(gateway).BitLen()), "", "eth0")
	pod.Route(c.at("0.0.0.0/0"), gateway, link)
}

// echo has both pods answer with who they are.
func (c *cluster) echo(t *testing.T) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		c.pod1.Echo(t, network, c.at("10.77.1.2:8080"), "local")
		c.node2.Echo(t, network, c.at("10.77.2.2:8080"), "remote")
	}
}

// spread has one endpoint on each node.
func (c *cluster) spread(service string) *discoveryv1.EndpointSlice {
	s := endpointSlice(service, 8080, c.at("10.77.1.2"), c.at("10.77.2.2"))
	s.Endpoints[1].NodeName = new("node2")
	return s
}

func nodePort(name, clusterIP string, tcpPort, udpPort int32) *corev1.Service {
	s := service(name, clusterIP, tcp(80), udp(53))
	s.Spec.Type = corev1.ServiceTypeNodePort
	s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = tcpPort, udpPort
	return s
}

func startCluster(t *testing.T, c *cluster, objects ...any) *node {
	n := newNode(t, c.node1, "eth0")
	n.at.NodeAddresses = []netip.Addr{netip.MustParseAddr(c.at("192.0.2.11"))}
	n.at.WithoutTCX = c.withoutTCX
	n.start(append(objects, nodeObject(testNode, c.at("192.0.2.11")), nodeObject("node2", c.at("192.0.2.12")))...)
	// The outside is not this node: it must not be balanced at its sockets.
	moveTo(t, cgroup2(t))
	return n
}

func TestNodePortFromOutside(t *testing.T) {
	onEachHook(t, testNodePortFromOutside)
	t.Run("tc, IPv6", func(t *testing.T) { withTC(t, true, testNodePortFromOutside) })
}

func testNodePortFromOutside(t *testing.T, c *cluster) {
	web := nodePort("web", c.at("10.96.0.10"), 30080, 30053)
	web.Spec.ExternalIPs = []string{c.at("198.51.100.7")}
	n := startCluster(t, c, web, c.spread("web"),
		podObject("with-port", c.at("10.77.1.2"), corev1.ContainerPort{ContainerPort: 8080, HostPort: 8081}))
	even := map[string]int{"local": 10, "remote": 10}
	for _, tt := range []struct {
		name, network, address string
		want                   map[string]int
	}{
		{"tcp node port", "tcp", c.at("192.0.2.11:30080"), even},
		{"udp node port", "udp", c.at("192.0.2.11:30053"), even},
		{"tcp external IP", "tcp", c.at("198.51.100.7:80"), even},
		{"udp external IP", "udp", c.at("198.51.100.7:53"), even},
		{"host port", "tcp", c.at("192.0.2.11:8081"), map[string]int{"local": 20}},
	} {
		if got := answers(t, c.outside, tt.network, tt.address, 20); !maps.Equal(got, tt.want) {
			t.Errorf("%s: answers %v, want %v", tt.name, got, tt.want)
		}
	}

	// Large answers, to see that checksums and sizes hold over many segments.
	serveBulk(t, c.pod1, c.at("10.77.1.2:8082"))
	serveBulk(t, c.node2, c.at("10.77.2.2:8082"))
	big := c.spread("big")
	big.Ports[0].Port = new(int32(8082))
	n.apply(nodePort("big", c.at("10.96.0.11"), 30081, 30054), big)
	for range 4 {
		if err := bulk(c, c.at("192.0.2.11:30081")); err != nil {
			t.Errorf("bulk: %v", err)
		}
	}

	// Only backends of this node, and with the client's own address.
	web.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	n.apply(web.DeepCopy())
	if got := answers(t, c.outside, "tcp", c.at("192.0.2.11:30080"), 20); !maps.Equal(got, map[string]int{"local": 20}) {
		t.Errorf("externalTrafficPolicy Local: answers %v", got)
	}

	// A pod that dials its own node is inside; another node's address leads to that node, whatever it answers.
	c.node2.Echo(t, "tcp", c.at("192.0.2.12:30080"), "node2")
	c.node2.Echo(t, "udp", c.at("192.0.2.12:30053"), "node2")
	for _, tt := range []struct {
		network, address string
		want             map[string]int
	}{
		{"tcp", c.at("192.0.2.11:30080"), even},
		{"udp", c.at("192.0.2.11:30053"), even},
		{"tcp", c.at("192.0.2.12:30080"), map[string]int{"node2": 20}},
		{"udp", c.at("192.0.2.12:30053"), map[string]int{"node2": 20}},
	} {
		var got map[string]int
		n.inside(func() { got = answers(t, c.pod1, tt.network, tt.address, 20) })
		if !maps.Equal(got, tt.want) {
			t.Errorf("externalTrafficPolicy Local, %s %s from a pod: answers %v, want %v", tt.network, tt.address, got, tt.want)
		}
	}

	// No backends: refused at once.
	n.apply(endpointSlice("web", 8080))
	for network, address := range map[string]string{"tcp": "192.0.2.11:30080", "udp": "192.0.2.11:30053"} {
		if _, err := c.outside.Ask(network, c.at(address), patience); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("no backends: %s %v, want connection refused", network, err)
		}
	}
}

// bulk sends a megabyte to a backend that answers with its digest and with another one: segments are large both ways.
func bulk(c *cluster, address string) error {
	conn, err := c.outside.Dial("tcp", address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		conn.Write(data)
		conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); !bytes.Equal(got, append(sum[:], data...)) {
		return fmt.Errorf("answer of %d bytes is not what was sent", len(got))
	}
	return nil
}

func serveBulk(t *testing.T, ns *netnstest.Namespace, address string) {
	t.Helper()
	var l net.Listener
	ns.Do(func() (err error) { l, err = net.Listen("tcp", address); return err })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				data, err := io.ReadAll(conn)
				if err == nil {
					sum := sha256.Sum256(data)
					conn.Write(append(sum[:], data...))
				}
			}()
		}
	}()
}

// A connection from outside outlives its backend's place in the rotation and the agent; new ones go elsewhere.
func TestOutsideConnectionsStay(t *testing.T) { onEachHook(t, testOutsideConnectionsStay) }

func testOutsideConnectionsStay(t *testing.T, c *cluster) {
	n := startCluster(t, c, nodePort("web", c.at("10.96.0.10"), 30080, 30053), c.spread("web"))
	conns := map[string]net.Conn{}
	for len(conns) < 2 {
		conn, err := c.outside.Dial("tcp", c.at("192.0.2.11:30080"), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		name, err := netnstest.Talk(conn, patience)
		if err != nil {
			t.Fatal(err)
		}
		conns[name] = conn
	}
	n.apply(endpointSlice("web", 8080, c.at("10.77.1.2")))
	if got := answers(t, c.outside, "tcp", c.at("192.0.2.11:30080"), 10); !maps.Equal(got, map[string]int{"local": 10}) {
		t.Errorf("new connections: %v", got)
	}
	n.stop()
	n.start(nodePort("web", c.at("10.96.0.10"), 30080, 30053), endpointSlice("web", 8080, c.at("10.77.1.2")), nodeObject(testNode, c.at("192.0.2.11")))
	for want, conn := range conns {
		if got, err := netnstest.Talk(conn, patience); got != want {
			t.Errorf("connection to %s: %q, %v", want, got, err)
		}
	}
}

func TestOutsideSourceRangesAndAffinity(t *testing.T) {
	overEachFamily(t, testOutsideSourceRangesAndAffinity)
}

func testOutsideSourceRangesAndAffinity(t *testing.T, c *cluster) {
	c.outside.Address("eth0", c.at("192.0.2.99/24"))
	c.outside.Address("eth0", c.at("192.0.2.98/24"))
	lb := nodePort("lb", c.at("10.96.0.10"), 30080, 30053)
	lb.Spec.Type = corev1.ServiceTypeLoadBalancer
	lb.Spec.LoadBalancerSourceRanges = []string{c.at("192.0.2.96/28")}
	lb.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.at("198.51.100.9")}}
	startCluster(t, c, lb, c.spread("lb"))
	from := func(source, address string) (string, error) {
		var conn net.Conn
		err := c.outside.Try(func() (err error) {
			d := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
			conn, err = d.Dial("tcp", address)
			return err
		})
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return netnstest.Talk(conn, patience)
	}
	if got, err := from(c.at("192.0.2.13"), c.at("198.51.100.9:80")); err == nil {
		t.Errorf("a source out of range was answered by %q", got)
	}
	first, err := from(c.at("192.0.2.99"), c.at("198.51.100.9:80"))
	if err != nil {
		t.Fatalf("a source in range: %v", err)
	}
	for range 10 {
		if got, err := from(c.at("192.0.2.99"), c.at("198.51.100.9:80")); got != first {
			t.Errorf("affinity: %q, %v after %q", got, err, first)
		}
	}
	// Each frontend gives backends in turn, and the one above may have done so for more than one packet of the client that it refused.
	one, errOne := from(c.at("192.0.2.13"), c.at("192.0.2.11:30080"))
	other, errOther := from(c.at("192.0.2.98"), c.at("192.0.2.11:30080"))
	if errOne != nil || errOther != nil || one == other {
		t.Errorf("two other clients at the node port: %q, %v and %q, %v; want each another backend", one, errOne, other, errOther)
	}
	if got, err := from(c.at("192.0.2.99"), c.at("192.0.2.11:30080")); got != first {
		t.Errorf("affinity at the node port: %q, %v after %q", got, err, first)
	}
}

// One client port, three frontends, the same two backends behind all of them: six connections that look alike to the
// backends are kept apart.
func TestOneClientPortForSeveralFrontends(t *testing.T) {
	overEachFamily(t, testOneClientPortForSeveralFrontends)
}

func testOneClientPortForSeveralFrontends(t *testing.T, c *cluster) {
	web := nodePort("web", c.at("10.96.0.10"), 30080, 30053)
	web.Spec.ExternalIPs = []string{c.at("198.51.100.7")}
	startCluster(t, c, web, c.spread("web"), nodePort("twin", c.at("10.96.0.11"), 30081, 30054), c.spread("twin"))
	var conns []net.Conn
	for port := range 2 { // each frontend gives one connection to each backend
		for _, address := range []string{c.at("192.0.2.11:30080"), c.at("198.51.100.7:80"), c.at("192.0.2.11:30081")} {
			c.outside.Do(func() error {
				d := net.Dialer{Timeout: 3 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.at("192.0.2.13")), Port: 45000 + port}, Control: reuseAddress}
				conn, err := d.Dial("tcp", address)
				if err == nil {
					conns = append(conns, conn)
				}
				return err
			})
		}
	}
	for range 3 {
		for _, conn := range conns {
			if _, err := netnstest.Talk(conn, patience); err != nil {
				t.Errorf("%s to %s: %v", conn.LocalAddr(), conn.RemoteAddr(), err)
			}
		}
	}
	for _, conn := range conns {
		conn.Close()
	}
}
