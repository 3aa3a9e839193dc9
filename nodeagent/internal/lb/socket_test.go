package lb

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// backends listens at addresses of a namespace's loopback, TCP and UDP, each answering with its address.
func backends(t *testing.T, ns *netnstest.Namespace, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		bits := "/32"
		if net.ParseIP(a).To4() == nil {
			bits = "/128"
		}
		ns.Address("lo", a+bits)
		for _, network := range []string{"tcp", "udp"} {
			ns.Echo(t, network, net.JoinHostPort(a, "8080"), a)
		}
	}
}

func TestEverySpreadIsEven(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2", "10.77.0.3", "fd77::1", "fd77::2")
	n := newNode(t, ns)
	six := service("six", "fd96::10", tcp(80), udp(53))
	n.start(
		service("web", "10.96.0.10", tcp(80), udp(53)), endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2", "10.77.0.3"),
		six, endpointSlice("six", 8080, "fd77::1", "fd77::2"),
	)
	v4 := map[string]int{"10.77.0.1": 10, "10.77.0.2": 10, "10.77.0.3": 10}
	v6 := map[string]int{"fd77::1": 15, "fd77::2": 15}
	for _, tt := range []struct {
		network, address string
		want             map[string]int
	}{
		{"tcp4", "10.96.0.10:80", v4},
		{"udp4", "10.96.0.10:53", v4},
		{"tcp6", "[fd96::10]:80", v6},
		{"udp6", "[fd96::10]:53", v6},
	} {
		if got := answers(t, ns, tt.network, tt.address, 30); !maps.Equal(got, tt.want) {
			t.Errorf("%s %s: answers %v, want %v", tt.network, tt.address, got, tt.want)
		}
	}
}

// A program with an IPv6 socket that dials an IPv4 service, as Java and others do.
func TestMappedAddresses(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1")
	n := newNode(t, ns)
	n.start(service("web", "10.96.0.10", tcp(80), udp(53)), endpointSlice("web", 8080, "10.77.0.1"))
	service := [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 96, 14: 0, 15: 10}
	for _, tt := range []struct {
		name      string
		kind      int
		port      int
		connected bool
	}{{"tcp", unix.SOCK_STREAM, 80, true}, {"connected udp", unix.SOCK_DGRAM, 53, true}, {"unconnected udp", unix.SOCK_DGRAM, 53, false}} {
		t.Run(tt.name, func(t *testing.T) {
			ns.Do(func() error {
				fd, err := unix.Socket(unix.AF_INET6, tt.kind, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3})
				to := &unix.SockaddrInet6{Port: tt.port, Addr: service}
				if tt.connected {
					if err := unix.Connect(fd, to); err != nil {
						return fmt.Errorf("connect: %w", err)
					}
					if _, err := unix.Write(fd, []byte("hi")); err != nil {
						return fmt.Errorf("write: %w", err)
					}
					peer, err := unix.Getpeername(fd)
					if p, ok := peer.(*unix.SockaddrInet6); err != nil || !ok || p.Addr != service || p.Port != tt.port {
						t.Errorf("getpeername %+v, %v", peer, err)
					}
				} else if err := unix.Sendto(fd, []byte("hi"), 0, to); err != nil {
					return fmt.Errorf("sendto: %w", err)
				}
				buf := make([]byte, 64)
				n, from, err := unix.Recvfrom(fd, buf, 0)
				if err != nil {
					return fmt.Errorf("recvfrom: %w", err)
				}
				if got := string(buf[:n]); got != "10.77.0.1 hi" {
					t.Errorf("answer %q", got)
				}
				if f, ok := from.(*unix.SockaddrInet6); tt.kind == unix.SOCK_DGRAM && (!ok || f.Addr != service || f.Port != tt.port) {
					t.Errorf("answer from %+v, want the service", from)
				}
				return nil
			})
		})
	}
}

// The client sees the service's address, never the backend's: in getpeername and as a datagram's source.
func TestClientSeesTheService(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "fd77::1")
	n := newNode(t, ns)
	n.start(
		service("web", "10.96.0.10", tcp(80), udp(53)), endpointSlice("web", 8080, "10.77.0.1"),
		service("six", "fd96::10", tcp(80), udp(53)), endpointSlice("six", 8080, "fd77::1"),
	)
	for _, tt := range []struct{ network, local, address string }{
		{"udp4", "0.0.0.0:0", "10.96.0.10:53"},
		{"udp6", "[::]:0", "[fd96::10]:53"},
	} {
		var c net.PacketConn
		ns.Do(func() (err error) { c, err = net.ListenPacket(tt.network, tt.local); return err })
		defer c.Close()
		to, err := net.ResolveUDPAddr(tt.network, tt.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WriteTo([]byte("hi"), to); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		_, from, err := c.ReadFrom(make([]byte, 64))
		if err != nil || from.String() != tt.address {
			t.Errorf("%s: answer from %v, %v; want %s", tt.network, from, err, tt.address)
		}
	}
	for _, address := range []string{"10.96.0.10:80", "[fd96::10]:80"} {
		c, err := ns.Dial("tcp", address, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.RemoteAddr().String(); got != address {
			t.Errorf("getpeername %s, want %s", got, address)
		}
	}
}

// A UDP socket stays with its backend while that is in rotation, and moves on when it is not.
func TestDatagramsStick(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2", "10.77.0.3")
	n := newNode(t, ns)
	all := []string{"10.77.0.1", "10.77.0.2", "10.77.0.3"}
	n.start(service("dns", "10.96.0.10", udp(53)), endpointSlice("dns", 8080, all...))
	var c net.PacketConn
	ns.Do(func() (err error) { c, err = net.ListenPacket("udp4", "0.0.0.0:0"); return err })
	defer c.Close()
	say := func() string {
		if _, err := c.WriteTo([]byte("hi"), &net.UDPAddr{IP: net.IPv4(10, 96, 0, 10), Port: 53}); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 64)
		if _, _, err := c.ReadFrom(buf); err != nil {
			t.Fatal(err)
		}
		var name string
		fmt.Sscan(string(buf), &name)
		return name
	}
	first := say()
	for range 10 {
		if got := say(); got != first {
			t.Fatalf("moved from %s to %s", first, got)
		}
	}
	var rest []string
	for _, a := range all {
		if a != first {
			rest = append(rest, a)
		}
	}
	n.apply(endpointSlice("dns", 8080, rest...))
	if got := say(); got == first {
		t.Errorf("%s still gets datagrams after it has left", first)
	}
}

func TestRefused(t *testing.T) {
	ns := netnstest.New(t, "node")
	n := newNode(t, ns)
	empty := service("empty", "10.96.0.10", tcp(80), udp(53))
	empty.Spec.Ports[0].NodePort = 30080
	n.start(empty)
	for network, address := range map[string]string{"tcp": "10.96.0.10:80", "udp": "10.96.0.10:53"} {
		if _, err := ns.Ask(network, address, patience); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v, want connection refused", network, err)
		}
	}
}

func TestNodePortsAndHostPortsInside(t *testing.T) {
	ns, pod := netnstest.New(t, "node"), netnstest.New(t, "pod")
	netnstest.Connect(ns, "pod", pod, "eth0")
	ns.Address("pod", "192.0.2.1/32")
	ns.Route("10.77.1.2/32", "", "pod")
	pod.Address("eth0", "10.77.1.2/32")
	pod.Route("192.0.2.1/32", "", "eth0")
	pod.Route("0.0.0.0/0", "192.0.2.1", "")
	backends(t, ns, "10.77.0.1")
	pod.Echo(t, "tcp", "10.77.1.2:9090", "hostport")
	pod.Echo(t, "tcp", "127.0.0.1:30080", "own")

	web := service("web", "10.96.0.10", tcp(80))
	web.Spec.Type, web.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	web.Spec.ExternalIPs = []string{"198.51.100.7"}
	n := newNode(t, ns)
	n.start(web, endpointSlice("web", 8080, "10.77.0.1"),
		nodeObject(testNode, "192.0.2.1"), nodeObject("node2", "192.0.2.2"),
		podObject("with-port", "10.77.1.2", corev1.ContainerPort{ContainerPort: 9090, HostPort: 8081}))
	for _, tt := range []struct {
		name    string
		from    *netnstest.Namespace
		address string
		want    string
	}{
		{"cluster IP from a pod", pod, "10.96.0.10:80", "10.77.0.1"},
		{"node port at this node from a pod", pod, "192.0.2.1:30080", "10.77.0.1"},
		{"node port at another node from a pod", pod, "192.0.2.2:30080", "10.77.0.1"},
		{"node port at this node from the host", ns, "192.0.2.1:30080", "10.77.0.1"},
		{"node port at loopback from the host", ns, "127.0.0.1:30080", "10.77.0.1"},
		{"a pod's loopback is its own", pod, "127.0.0.1:30080", "own"},
		{"external IP from a pod", pod, "198.51.100.7:80", "10.77.0.1"},
		{"host port from the host", ns, "192.0.2.1:8081", "hostport"},
		{"host port from a pod", pod, "192.0.2.1:8081", "hostport"},
		{"host port at loopback from the host", ns, "127.0.0.1:8081", "hostport"},
	} {
		if got, err := tt.from.Ask("tcp", tt.address, patience); got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	// The other node's host ports are the other node's.
	if got, err := ns.Ask("tcp", "192.0.2.2:8081", patience); err == nil {
		t.Errorf("host port at another node answered %q", got)
	}
}

func TestSessionAffinity(t *testing.T) {
	ns, pod := netnstest.New(t, "node"), netnstest.New(t, "pod")
	netnstest.Connect(ns, "pod", pod, "eth0")
	ns.Address("pod", "192.0.2.1/32")
	ns.Route("10.77.1.2/32", "", "pod")
	pod.Address("eth0", "10.77.1.2/32")
	pod.Route("192.0.2.1/32", "", "eth0")
	pod.Route("0.0.0.0/0", "192.0.2.1", "")
	all := []string{"10.77.0.1", "10.77.0.2", "10.77.0.3"}
	backends(t, ns, all...)
	web := service("web", "10.96.0.10", tcp(80))
	web.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	web.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(3))}}
	n := newNode(t, ns)
	n.start(web, endpointSlice("web", 8080, all...))

	first := answers(t, ns, "tcp", "10.96.0.10:80", 20)
	second := answers(t, pod, "tcp", "10.96.0.10:80", 20)
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("one client reached several backends: %v, %v", first, second)
	}
	if maps.Equal(first, second) {
		t.Errorf("two clients share a backend of three: %v", first)
	}
	// Not before the timeout, which counts from the last connection; after it the next in turn.
	moved := false
	for deadline := time.Now().Add(time.Minute); !moved && time.Now().Before(deadline); {
		<-time.After(3100 * time.Millisecond)
		moved = !maps.Equal(answers(t, ns, "tcp", "10.96.0.10:80", 20), first)
	}
	if !moved {
		t.Error("affinity never timed out")
	}
	// A backend that leaves keeps nobody.
	now := answers(t, ns, "tcp", "10.96.0.10:80", 20)
	var rest []string
	for _, a := range all {
		if now[a] == 0 {
			rest = append(rest, a)
		}
	}
	n.apply(endpointSlice("web", 8080, rest...))
	if got := answers(t, ns, "tcp", "10.96.0.10:80", 20); len(got) != 1 || maps.Equal(got, now) {
		t.Errorf("after the backend left: %v, before: %v", got, now)
	}
}
