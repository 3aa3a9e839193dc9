package route

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

var overlayRanges = Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.77.0.0/16"), netip.MustParsePrefix("fd77::/48")}}

// networks are two networks with a router between them, which knows nothing of pods. node1, node3 and a stranger are on the first, node2 is on the second.
// Each node has a pod, which is one more address of its.
type networks struct {
	machines map[string]*netnstest.Namespace
	nodes    []*corev1.Node
}

func newNetworks(t *testing.T) *networks {
	t.Helper()
	n := &networks{machines: map[string]*netnstest.Namespace{}}
	wire, router := netnstest.New(t, "wire"), netnstest.New(t, "router")
	netnstest.Connect(router, "eth0", wire, "router")
	ports := []string{"router"}
	for _, m := range []struct{ name, v4, v6, router4, router6 string }{
		{"node1", "192.0.2.11", "fd00:1::11", "192.0.2.1", "fd00:1::1"},
		{"node3", "192.0.2.13", "fd00:1::13", "192.0.2.1", "fd00:1::1"},
		{"stranger", "192.0.2.66", "fd00:1::66", "192.0.2.1", "fd00:1::1"},
		{"node2", "198.51.100.12", "fd00:2::12", "198.51.100.1", "fd00:2::1"},
	} {
		ns := netnstest.New(t, m.name)
		n.machines[m.name] = ns
		if m.name == "node2" {
			netnstest.Connect(ns, "eth0", router, "eth1")
		} else {
			netnstest.Connect(ns, "eth0", wire, m.name)
			ports = append(ports, m.name)
		}
		ns.Sysctl("ipv4/conf/all/rp_filter", "1") // answers have to come the way that questions go
		ns.Address("eth0", m.v4+"/24")
		ns.Address("eth0", m.v6+"/64")
		ns.Route("0.0.0.0/0", m.router4, "")
		ns.Route("::/0", m.router6, "")
		if number, ok := strings.CutPrefix(m.name, "node"); ok {
			ns.Address("lo", "10.77."+number+".2/32")
			ns.Address("lo", "fd77:0:0:"+number+"::2/128")
			o := node(m.name, "10.77."+number+".0/24", m.v4, m.v6)
			o.Spec.PodCIDRs = append(o.Spec.PodCIDRs, "fd77:0:0:"+number+"::/64")
			n.nodes = append(n.nodes, o)
		}
	}
	wire.Bridge("br0", ports...)
	router.Address("eth0", "192.0.2.1/24")
	router.Address("eth0", "fd00:1::1/64")
	router.Address("eth1", "198.51.100.1/24")
	router.Address("eth1", "fd00:2::1/64")
	router.Sysctl("ipv4/ip_forward", "1")
	router.Sysctl("ipv6/conf/all/forwarding", "1")
	return n
}

// keep runs a node's keeper until stop or the test's end, and returns it with what tells that all stands.
func (n *networks) keep(t *testing.T, name string, overlay Overlay) (k *Keeper, applied chan struct{}, stop func()) {
	t.Helper()
	applied = make(chan struct{}, 16)
	cfg := Config{Node: name, Ranges: overlayRanges, Overlay: overlay, MTU: 1450, Uplink: "eth0", Applied: func() { applied <- struct{}{} }}
	for _, o := range n.nodes {
		if o.Name == name {
			cfg.Local = netip.MustParseAddr(o.Status.Addresses[0].Address)
		}
	}
	k = NewKeeper(cfg)
	for _, o := range n.nodes {
		k.Update(o)
	}
	k.Synced()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.machines[name].Try(func() error { return k.Run(ctx) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	await(t, applied)
	return k, applied, stop
}

func await(t *testing.T, applied chan struct{}) {
	t.Helper()
	select {
	case <-applied:
	case <-time.After(time.Minute):
		t.Fatal("the routes do not stand")
	}
}

// Pods and nodes of two networks see each other by their own addresses, over both families and with a tunnel to some nodes and to all.
func TestNodesOnOtherNetworks(t *testing.T) {
	for _, overlay := range []Overlay{OverlayAuto, OverlayVXLAN} {
		t.Run(string(overlay), func(t *testing.T) {
			n := newNetworks(t)
			for _, o := range n.nodes {
				n.keep(t, o.Name, overlay)
			}
			for _, tt := range []struct{ from, source, to, address, seen string }{
				{"node1", "10.77.1.2", "node2", "10.77.2.2", "10.77.1.2"},
				{"node2", "10.77.2.2", "node1", "10.77.1.2", "10.77.2.2"},
				{"node3", "10.77.3.2", "node2", "10.77.2.2", "10.77.3.2"},
				{"node1", "10.77.1.2", "node3", "10.77.3.2", "10.77.1.2"},
				{"node1", "10.77.1.2", "node2", "198.51.100.12", "10.77.1.2"},
				{"node1", "", "node2", "10.77.2.2", "192.0.2.11"},
				{"node1", "", "node2", "198.51.100.12", "192.0.2.11"},
				{"node1", "10.77.1.2", "stranger", "192.0.2.66", "192.0.2.11"},
				{"node1", "fd77:0:0:1::2", "node2", "fd77:0:0:2::2", "fd77:0:0:1::2"},
				{"node2", "fd77:0:0:2::2", "node3", "fd77:0:0:3::2", "fd77:0:0:2::2"},
				{"node3", "fd77:0:0:3::2", "node1", "fd77:0:0:1::2", "fd77:0:0:3::2"},
				{"node2", "fd77:0:0:2::2", "node1", "fd00:1::11", "fd77:0:0:2::2"},
				{"node1", "", "node2", "fd77:0:0:2::2", "fd00:1::11"},
				{"node1", "fd77:0:0:1::2", "stranger", "fd00:1::66", "fd00:1::11"},
			} {
				if got := seenAs(t, n.machines[tt.from], tt.source, n.machines[tt.to], net.JoinHostPort(tt.address, "7000")); got != tt.seen {
					t.Errorf("%s of %s from %q: seen as %s, want %s", tt.address, tt.to, tt.source, got, tt.seen)
				}
			}
			n.machines["node1"].Do(func() error {
				for file, want := range map[string]string{"eth0/accept_ra": "2", "all/forwarding": "1", "lo/accept_ra": "1"} {
					if got, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + file); err != nil || strings.TrimSpace(string(got)) != want {
						t.Errorf("%s is %s, %v; want %s", file, got, err, want)
					}
				}
				return nil
			})
			sent := n.tunnelled("node1")
			seenAs(t, n.machines["node1"], "10.77.1.2", n.machines["node3"], "10.77.3.2:7000")
			if through := n.tunnelled("node1") > sent; through != (overlay == OverlayVXLAN) {
				t.Errorf("what goes to a node of the same network takes the tunnel: %v", through)
			}
		})
	}
}

// tunnelled counts what a node has sent through the tunnel.
func (n *networks) tunnelled(name string) (packets uint64) {
	n.machines[name].Do(func() error {
		link, err := netlink.LinkByName(TunnelLink)
		if err == nil {
			packets = link.Attrs().Statistics.TxPackets
		}
		return err
	})
	return packets
}

// What nodes make of a tunnel goes with the nodes, and the tunnel with the setting.
func TestTunnelFollowsNodes(t *testing.T) {
	n := newNetworks(t)
	k, applied, stop := n.keep(t, "node1", OverlayAuto)
	entries := func() (all []string) {
		n.machines["node1"].Do(func() error {
			link, err := netlink.LinkByName(TunnelLink)
			if err != nil {
				return err
			}
			for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, 7} { // the last is the bridge's
				list, err := netlink.NeighList(link.Attrs().Index, family)
				if err != nil {
					return err
				}
				for _, e := range list {
					if e.State&netlink.NUD_PERMANENT != 0 && len(e.HardwareAddr) > 0 {
						all = append(all, e.IP.String()+" "+e.HardwareAddr.String())
					}
				}
			}
			routes, err := List()
			for _, r := range routes {
				if r.Tunnel {
					all = append(all, r.String())
				}
			}
			return err
		})
		slices.Sort(all)
		return all
	}
	mac := tunnelMAC("node2")
	end := func(address string) []string {
		l := linkLocal(mac).String()
		out := []string{
			address + " " + mac.String(), address + " " + mac.String(), l + " " + mac.String(), // for Ethernet, IPv4 and IPv6
			"10.77.2.0/24 via " + address + " through the tunnel from 192.0.2.11", address + "/32 via " + address + " through the tunnel for pods",
			"fd77:0:0:2::/64 via " + l + " through the tunnel from fd00:1::11", "fd00:2::12/128 via " + l + " through the tunnel for pods",
		}
		slices.Sort(out)
		return out
	}
	if got := entries(); !slices.Equal(got, end("198.51.100.12")) {
		t.Errorf("first %q", got)
	}
	moved := n.nodes[2].DeepCopy()
	moved.Status.Addresses[0].Address = "198.51.100.99"
	k.Update(moved)
	await(t, applied)
	if got := entries(); !slices.Equal(got, end("198.51.100.99")) {
		t.Errorf("moved %q", got)
	}
	k.Delete("node2")
	await(t, applied)
	if got := entries(); len(got) > 0 {
		t.Errorf("after the node's end: %q", got)
	}
	rules := func() (count int) {
		n.machines["node1"].Do(func() error {
			list, err := netlink.RuleListFiltered(netlink.FAMILY_ALL, &netlink.Rule{Table: podsTable}, netlink.RT_FILTER_TABLE)
			count = len(list)
			return err
		})
		return count
	}
	if got := rules(); got != 2 {
		t.Errorf("%d rules, want one a family", got)
	}
	stop()
	n.nodes = n.nodes[:2] // on one network
	n.keep(t, "node1", OverlayNone)
	if got := rules(); got != 0 {
		t.Errorf("%d rules without an overlay", got)
	}
	if err := n.machines["node1"].Try(func() error { _, err := netlink.LinkByName(TunnelLink); return err }); !errors.As(err, new(netlink.LinkNotFoundError)) {
		t.Errorf("without an overlay there is a tunnel: %v", err)
	}
}

// Who is no node gets nothing into the tunnel, whatever it says.
func TestTunnelIsForNodes(t *testing.T) {
	n := newNetworks(t)
	n.keep(t, "node1", OverlayAuto)
	var pod net.PacketConn
	n.machines["node1"].Do(func() (err error) { pod, err = net.ListenPacket("udp", "10.77.1.2:7000"); return err })
	defer pod.Close()
	// Each says in the name of node2's pod who it is; the node's word comes after the other's, by a longer way.
	for _, from := range []string{"stranger", "node2"} {
		n.machines[from].Do(func() error {
			c, err := net.Dial("udp", fmt.Sprintf("192.0.2.11:%d", TunnelPort))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(encapsulated("node1", "10.77.2.2", "10.77.1.2", 7000, from))
			return err
		})
	}
	buffer := make([]byte, 100)
	pod.SetReadDeadline(time.Now().Add(time.Minute))
	size, from, err := pod.ReadFrom(buffer)
	if err != nil || string(buffer[:size]) != "node2" || !strings.HasPrefix(from.String(), "10.77.2.2:") {
		t.Errorf("heard %q from %v, %v", buffer[:size], from, err)
	}
	pod.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if size, _, err := pod.ReadFrom(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q as well, %v", buffer[:size], err)
	}
}

// encapsulated is a datagram as the tunnel has it, without the headers between the nodes.
func encapsulated(node, source, destination string, port uint16, data string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 7)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(data)))
	udp = append(append(udp, 0, 0), data...) // no checksum
	ip := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(udp)))
	ip = append(append(ip, 0, 0, 0, 0, 64, 17, 0, 0), netip.MustParseAddr(source).AsSlice()...)
	ip = append(ip, netip.MustParseAddr(destination).AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum&0xffff))
	vxlan := []byte{0x08, 0, 0, 0, 0, 0, tunnelID, 0}
	return slices.Concat(vxlan, tunnelMAC(node), tunnelMAC("another"), []byte{0x08, 0x00}, ip, udp)
}

func TestParseOverlay(t *testing.T) {
	for text, want := range map[string]Overlay{"": OverlayNone, "none": OverlayNone, "auto": OverlayAuto, "vxlan": OverlayVXLAN} {
		if got, err := ParseOverlay(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseOverlay("ipip"); err == nil {
		t.Error("ipip is taken")
	}
}
