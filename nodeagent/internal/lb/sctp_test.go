package lb

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// sctpService has one port of each kind that is dialled, in front of port 8132.
func sctpService(c *cluster, name, clusterIP, externalIP string, nodePort int32) *corev1.Service {
	s := service(name, c.at(clusterIP), corev1.ServicePort{Name: "sig", Port: 7000, NodePort: nodePort, Protocol: corev1.ProtocolSCTP})
	s.Spec.Type = corev1.ServiceTypeNodePort
	s.Spec.ExternalIPs = []string{c.at(externalIP)}
	return s
}

// sctpSpread has one endpoint on each node, or the first alone.
func sctpSpread(c *cluster, service string, backends ...string) *discoveryv1.EndpointSlice {
	s := endpointSlice(service, 8132, backends...)
	s.Ports = []discoveryv1.EndpointPort{{Name: new("sig"), Port: new(int32(8132)), Protocol: new(corev1.ProtocolSCTP)}}
	for i := range s.Endpoints {
		if s.Endpoints[i].Addresses[0] == c.at("10.77.2.2") {
			s.Endpoints[i].NodeName = new("node2")
		}
	}
	return s
}

// sctpCluster has backends on both nodes and, beside the one here, a pod that is a client alone.
func sctpCluster(t *testing.T, c *cluster) (client *netnstest.Namespace) {
	t.Helper()
	client = netnstest.New(t, "pod2")
	netnstest.Connect(c.node1, "pod2", client, "eth0")
	c.linkPod(client, "pod2", "10.77.1.3")
	c.pod1.Echo(t, "sctp", c.at("10.77.1.2:8132"), "local")
	c.node2.Echo(t, "sctp", c.at("10.77.2.2:8132"), "remote")
	return client
}

// startSCTP runs the balancer with the pods' interfaces taken in.
func startSCTP(t *testing.T, c *cluster, objects ...any) *node {
	n := startCluster(t, c, objects...)
	n.lb.Adopt("pod1", false)
	n.lb.Adopt("pod2", false)
	n.settled()
	return n
}

// SCTP to services, from pods and from outside: to a backend here, to one elsewhere, and to the pod itself that asks.
func TestSCTP(t *testing.T) { onEachHook(t, testSCTP) }

func testSCTP(t *testing.T, c *cluster) {
	client := sctpCluster(t, c)
	both := []string{c.at("10.77.1.2"), c.at("10.77.2.2")}
	sig := sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132)
	n := startSCTP(t, c, sig, sctpSpread(c, "sig", both...),
		&corev1.Pod{ObjectMeta: podObject("with-port", "").ObjectMeta, Spec: corev1.PodSpec{NodeName: testNode, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8132, HostPort: 8133, Protocol: corev1.ProtocolSCTP}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: c.at("10.77.1.2")}}}})
	even := map[string]int{"local": 5, "remote": 5}
	here := map[string]int{"local": 10}
	for _, tt := range []struct {
		name    string
		from    *netnstest.Namespace
		address string
		want    map[string]int
	}{
		{"a pod at the cluster IP", client, "10.96.0.10:7000", even},
		{"a pod at its node's port", client, "192.0.2.11:30132", even},
		{"a pod at the other node's port", client, "192.0.2.12:30132", even},
		{"a pod at an external IP", client, "198.51.100.7:7000", even},
		{"a pod at the host's port", client, "192.0.2.11:8133", here},
		{"a pod at the backend itself", client, "10.77.1.2:8132", here},
		{"a backend at the cluster IP", c.pod1, "10.96.0.10:7000", even},
		{"a backend at its own host's port", c.pod1, "192.0.2.11:8133", here},
		{"outside at the node's port", c.outside, "192.0.2.11:30132", even},
		{"outside at an external IP", c.outside, "198.51.100.7:7000", even},
		{"outside at the host's port", c.outside, "192.0.2.11:8133", here},
	} {
		if got := answers(t, tt.from, "sctp", c.at(tt.address), 10); !maps.Equal(got, tt.want) {
			t.Errorf("%s: answers %v, want %v", tt.name, got, tt.want)
		}
	}

	// Messages of many packets, of all lengths, in both directions.
	for _, from := range []*netnstest.Namespace{client, c.pod1} {
		for range 2 {
			conn, err := from.Dial("sctp", c.at("10.96.0.10:7000"), patience)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, length := range []int{1, 1399, 40001} {
				roundTrip(t, conn, length)
			}
		}
	}

	// No backends: nothing answers in their place.
	n.apply(sctpSpread(c, "sig"))
	if name, err := client.Ask("sctp", c.at("10.96.0.10:7000"), 300*time.Millisecond); err == nil {
		t.Errorf("no backends: answered by %q", name)
	}
}

func roundTrip(t *testing.T, conn net.Conn, length int) {
	t.Helper()
	long := bytes.Repeat([]byte("x"), length)
	if _, err := conn.Write(long); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	conn.SetDeadline(time.Now().Add(patience))
	read, err := conn.Read(got)
	if err != nil || !bytes.HasSuffix(got[:read], append([]byte(" "), long...)) {
		t.Errorf("a message of %d bytes: %d came back, %v", length, read, err)
	}
}

// An association outlives its backend's place in the rotation, its service and the agent. New ones go elsewhere, or nowhere.
func TestSCTPAssociationsStay(t *testing.T) { onEachHook(t, testSCTPAssociationsStay) }

func testSCTPAssociationsStay(t *testing.T, c *cluster) {
	client := sctpCluster(t, c)
	both := []string{c.at("10.77.1.2"), c.at("10.77.2.2")}
	sig := sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132)
	n := startSCTP(t, c, sig, sctpSpread(c, "sig", both...))
	conns := map[string]net.Conn{}
	dial := func(from *netnstest.Namespace, address string) {
		for range 2 {
			conn, err := from.Dial("sctp", address, patience)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			name, err := netnstest.Talk(conn, patience)
			if err != nil {
				t.Fatal(err)
			}
			conns[conn.LocalAddr().String()+" "+name] = conn
		}
	}
	dial(client, c.at("10.96.0.10:7000"))
	dial(c.pod1, c.at("10.96.0.10:7000"))
	dial(c.outside, c.at("192.0.2.11:30132"))
	talk := func(when string) {
		t.Helper()
		for key, conn := range conns {
			if got, err := netnstest.Talk(conn, patience); err != nil || !bytes.HasSuffix([]byte(key), []byte(" "+got)) {
				t.Errorf("%s: %s was answered by %q, %v", when, key, got, err)
			}
		}
	}
	n.apply(sctpSpread(c, "sig", both[0]))
	if got := answers(t, client, "sctp", c.at("10.96.0.10:7000"), 4); !maps.Equal(got, map[string]int{"local": 4}) {
		t.Errorf("new associations: %v", got)
	}
	talk("out of the rotation")
	n.stop()
	talk("without an agent")
	n.start(sig, sctpSpread(c, "sig", both[1]), nodeObject(testNode, c.at("192.0.2.11")), nodeObject("node2", c.at("192.0.2.12")))
	n.lb.Adopt("pod1", false)
	n.lb.Adopt("pod2", false)
	n.settled()
	talk("with the next agent")
	if got := answers(t, client, "sctp", c.at("10.96.0.10:7000"), 4); !maps.Equal(got, map[string]int{"remote": 4}) {
		t.Errorf("new associations with the next agent: %v", got)
	}
	n.remove(sig)
	talk("without the service")
}

// One client port, three frontends, the same two backends behind all of them: six associations that look alike to the backends are kept apart. One
// that has ended makes room for the next from its port.
func TestSCTPOneClientPortForSeveralFrontends(t *testing.T) {
	overEachFamily(t, testSCTPOneClientPortForSeveralFrontends)
}

func testSCTPOneClientPortForSeveralFrontends(t *testing.T, c *cluster) {
	client := sctpCluster(t, c)
	both := []string{c.at("10.77.1.2"), c.at("10.77.2.2")}
	startSCTP(t, c, sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132), sctpSpread(c, "sig", both...),
		sctpService(c, "twin", "10.96.0.11", "198.51.100.8", 30133), sctpSpread(c, "twin", both...))
	for _, from := range []struct {
		name      string
		ns        *netnstest.Namespace
		addresses []string
	}{
		{"a pod", client, []string{"10.96.0.10:7000", "10.96.0.11:7000", "192.0.2.11:30133"}},
		{"a backend", c.pod1, []string{"10.96.0.10:7000", "10.96.0.11:7000", "192.0.2.11:30133"}},
		{"outside", c.outside, []string{"192.0.2.11:30132", "198.51.100.7:7000", "192.0.2.11:30133"}},
	} {
		for range 2 {
			var conns []net.Conn
			for port := range uint16(2) { // each frontend gives one association to each backend
				for _, address := range from.addresses {
					conn, err := from.ns.DialSCTP(c.at(address), 45000+port, patience)
					if err != nil {
						t.Fatalf("%s: %v", from.name, err)
					}
					conns = append(conns, conn)
				}
			}
			for range 3 {
				for _, conn := range conns {
					if _, err := netnstest.Talk(conn, patience); err != nil {
						t.Errorf("%s: %s to %s: %v", from.name, conn.LocalAddr(), conn.RemoteAddr(), err)
					}
				}
			}
			for _, conn := range conns {
				if err := conn.Close(); err != nil {
					t.Errorf("%s: close: %v", from.name, err)
				}
			}
		}
	}
}

// A pod that dialled a backend by its service, and then dials it by itself from the same port, is answered by what it dialled; and the other way round.
func TestSCTPOnePortForServiceAndPod(t *testing.T) {
	c := newCluster(t, false)
	client := sctpCluster(t, c)
	startSCTP(t, c, sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132), sctpSpread(c, "sig", "10.77.2.2"))
	for _, address := range []string{"10.96.0.10:7000", "10.77.2.2:8132", "10.96.0.10:7000", "10.77.2.2:8132"} {
		conn, err := client.DialSCTP(address, 45000, patience)
		if err != nil {
			t.Fatal(err)
		}
		if name, err := netnstest.Talk(conn, patience); name != "remote" || err != nil {
			t.Errorf("%s: %q, %v", address, name, err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: close: %v", address, err)
		}
	}
}

// A client is an address; it keeps its backend.
func TestSCTPSessionAffinity(t *testing.T) {
	c := newCluster(t, false)
	client := sctpCluster(t, c)
	sig := sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132)
	sig.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	startSCTP(t, c, sig, sctpSpread(c, "sig", c.at("10.77.1.2"), c.at("10.77.2.2")))
	for _, from := range []*netnstest.Namespace{client, c.pod1, c.outside} {
		address := "10.96.0.10:7000"
		if from == c.outside {
			address = "192.0.2.11:30132"
		}
		if got := answers(t, from, "sctp", address, 6); len(got) != 1 {
			t.Errorf("answers %v", got)
		}
	}
}

// No program is at pods' interfaces before a service needs one, and none stays when no service does and the agent starts anew.
func TestNothingAtPodsWithoutSCTP(t *testing.T) {
	for name, withoutTCX := range map[string]bool{"tcx": false, "tc": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, false)
			c.withoutTCX = withoutTCX
			client := sctpCluster(t, c)
			web := nodePort("web", "10.96.0.20", 30080, 30053)
			n := startSCTP(t, c, web, c.spread("web"))
			want := func(when string, there bool) {
				t.Helper()
				if got := n.atInterface("pod2"); got != there {
					t.Errorf("%s: programs at the pod's interface: %v, want %v", when, got, there)
				}
			}
			want("no SCTP", false)
			sig := sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132)
			n.apply(sig, sctpSpread(c, "sig", c.at("10.77.2.2")))
			want("a port of SCTP", true)
			if name, err := client.Ask("sctp", "10.96.0.10:7000", patience); name != "remote" || err != nil {
				t.Errorf("answered by %q, %v", name, err)
			}
			if err := n.lb.Join(t.Context(), "gone", false); err != nil {
				t.Errorf("an interface that is gone: %v", err)
			}
			n.stop()
			n.config = func(cfg *Config) { cfg.Resync = 50 * time.Millisecond }
			n.start(web, c.spread("web"))
			for deadline := time.Now().Add(patience); n.atInterface("pod2"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the next agent, no SCTP: programs stay at the pod's interface")
				}
			}
		})
	}
}

// A pod with a network stack of its own opens no sockets on the node: here, one whose processes are outside of the node's cgroup. All that it sends to services is
// balanced at its interface, as it is for other pods at their sockets.
func TestPodsWithTheirOwnStack(t *testing.T) { onEachHook(t, testPodsWithTheirOwnStack) }

func testPodsWithTheirOwnStack(t *testing.T, c *cluster) {
	client := sctpCluster(t, c)
	web := nodePort("web", c.at("10.96.0.20"), 30080, 30053)
	n := startCluster(t, c, web, c.spread("web"))
	for _, name := range []string{"pod1", "pod2"} {
		if err := n.lb.Join(t.Context(), name, true); err != nil {
			t.Fatal(err)
		}
	}
	even := map[string]int{"local": 5, "remote": 5}
	for _, tt := range []struct {
		name             string
		from             *netnstest.Namespace
		network, address string
	}{
		{"TCP at the cluster IP", client, "tcp", "10.96.0.20:80"},
		{"UDP at the cluster IP", client, "udp", "10.96.0.20:53"},
		{"TCP at the node's port", client, "tcp", "192.0.2.11:30080"},
		{"UDP at the node's port", client, "udp", "192.0.2.11:30053"},
		{"TCP of a backend", c.pod1, "tcp", "10.96.0.20:80"},
		{"UDP of a backend", c.pod1, "udp", "10.96.0.20:53"},
	} {
		if got := answers(t, tt.from, tt.network, c.at(tt.address), 10); !maps.Equal(got, even) {
			t.Errorf("%s: answers %v", tt.name, got)
		}
	}
	if name, err := client.Ask("udp", c.at("10.77.2.2:8080"), patience); name != "remote" || err != nil {
		t.Errorf("a pod itself: %q, %v", name, err)
	}
	conn, err := client.Dial("tcp", c.at("10.96.0.20:80"), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	name, err := netnstest.Talk(conn, patience)
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	n.config = func(cfg *Config) { cfg.Resync = 50 * time.Millisecond }
	n.start(endpointSlice("web", 8080), nodeObject(testNode, c.at("192.0.2.11")))
	n.lb.Adopt("pod1", true)
	n.lb.Adopt("pod2", true)
	n.settled()
	if again, err := netnstest.Talk(conn, patience); again != name || err != nil {
		t.Errorf("without the service, with the next agent: %q, %v, before %q", again, err, name)
	}
}

// Where the node cannot balance, its pods run without services.
func TestNobodyWaitsForABalancerThatGaveUp(t *testing.T) {
	b, err := New(Config{Node: Node{Name: testNode}, At: Attachment{Cgroup: "/", Pins: t.TempDir()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); err == nil {
		t.Fatal("it balances with its maps on no bpf file system")
	}
	if err := b.Join(t.Context(), "pod", true); err != nil {
		t.Error(err)
	}
}

// What an SCTP packet's checksum has to be after its ports were replaced, at every length, padded or not; one that a device is to compute stays so.
func TestSCTPChecksums(t *testing.T) {
	c := newCluster(t, false)
	n := startCluster(t, c, sctpService(c, "sig", "10.96.0.10", "198.51.100.7", 30132), sctpSpread(c, "sig", "10.77.1.2"))
	random := rand.New(rand.NewPCG(1, 2))
	n.ns.Do(func() error {
		d, _, err := loadDatapath(n.at)
		if err != nil {
			return err
		}
		defer d.close()
		for i := range 850 { // to as much as a program can be tried with
			chunks := 4 + 4*i
			frame := sctpFrame(netip.MustParseAddrPort("192.0.2.13:4444"), netip.MustParseAddrPort("192.0.2.11:30132"), chunks, random)
			length := len(frame)
			if i%3 == 0 { // a frame that was filled up, and not with zeros
				frame = append(frame, bytes.Repeat([]byte{0xa5}, 1+i%40)...)
			}
			offloaded := i%7 == 0
			if offloaded {
				clear(frame[42:46])
			}
			out := make([]byte, len(frame)+64)
			verdict, err := d.objects.LbIngress.Run(&ebpf.RunOptions{Data: frame, DataOut: out})
			if err != nil {
				return err
			}
			packet := out[34:length]
			if got := netip.AddrPortFrom(netip.AddrFrom4([4]byte(out[30:34])), binary.BigEndian.Uint16(packet[2:])); verdict != passedOn || got.String() != "10.77.1.2:8132" {
				t.Fatalf("%d bytes: verdict %d, goes to %s", len(packet), verdict, got)
			}
			have := binary.LittleEndian.Uint32(packet[8:])
			clear(packet[8:12])
			want := crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli))
			if offloaded {
				want = 0
			}
			if have != want {
				t.Fatalf("%d bytes: checksum %08x, want %08x", len(packet), have, want)
			}
		}
		return nil
	})
}

// sctpFrame is an INIT with so many random bytes after its header.
func sctpFrame(source, destination netip.AddrPort, chunks int, random *rand.Rand) []byte {
	packet := binary.BigEndian.AppendUint16(nil, source.Port())
	packet = binary.BigEndian.AppendUint16(packet, destination.Port())
	packet = append(packet, make([]byte, 8+chunks)...)
	for i := range chunks {
		packet[12+i] = byte(random.Uint32())
	}
	packet[12] = 1 // INIT
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocolSCTP, 0, 0}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(packet)))
	ip = append(append(ip, source.Addr().AsSlice()...), destination.Addr().AsSlice()...)
	frame := append(make([]byte, 12), 8, 0)
	return append(append(frame, ip...), packet...)
}
