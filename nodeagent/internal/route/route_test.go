package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

func node(name, cidr string, addresses ...string) *corev1.Node {
	n := &corev1.Node{}
	n.Name = name
	n.Spec.PodCIDR = cidr
	n.Spec.PodCIDRs = []string{cidr}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

var ranges = Ranges{
	Pods:     []netip.Prefix{netip.MustParsePrefix("10.77.0.0/16")},
	Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
}

// Each file in testdata holds nodes as YAML documents and the routes and exceptions that node1 must have.
func TestDesired(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []*corev1.Node
			tunnel := Tunnel{Local: netip.MustParseAddr("192.0.2.11"), Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}}
			want := ""
			for _, f := range archive.Files {
				switch f.Name {
				case "want":
					want = string(f.Data)
					continue
				case "overlay":
					tunnel.Overlay = Overlay(strings.TrimSpace(string(f.Data)))
					continue
				}
				for _, doc := range strings.Split(string(f.Data), "---\n") {
					n := &corev1.Node{}
					if err := yaml.UnmarshalStrict([]byte(doc), n); err != nil {
						t.Fatalf("%s: %v", f.Name, err)
					}
					nodes = append(nodes, n)
				}
			}
			var got strings.Builder
			ends, tunnelled := tunnel.Peers("node1", nodes)
			for _, r := range Desired("node1", nodes, ranges, tunnelled...) {
				fmt.Fprintln(&got, r)
			}
			for _, p := range Peers(nodes) {
				fmt.Fprintln(&got, "peer", p)
			}
			for _, e := range ends {
				fmt.Fprintln(&got, "end", e.MAC, "at", e.Between, e.Gateways)
			}
			if d := cmp.Diff(want, got.String()); d != "" {
				t.Errorf("routes (-want +got):\n%s", d)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	a := Route{To: netip.MustParsePrefix("10.77.1.0/24"), Gateway: netip.MustParseAddr("192.0.2.1")}
	b := Route{To: netip.MustParsePrefix("10.77.2.0/24"), Gateway: netip.MustParseAddr("192.0.2.2")}
	moved := Route{To: a.To, Gateway: netip.MustParseAddr("192.0.2.9")}
	for _, tt := range []struct {
		name       string
		have, want []Route
		plan       Plan
	}{
		{"same", []Route{a, b}, []Route{b, a}, Plan{}},
		{"new", nil, []Route{a}, Plan{Put: []Route{a}}},
		{"gone", []Route{a, b}, []Route{a}, Plan{Drop: []Route{b}}},
		{"moved", []Route{a}, []Route{moved}, Plan{Put: []Route{moved}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.plan, Compare(tt.have, tt.want), cmp.Comparer(func(a, b Route) bool { return a == b })); d != "" {
				t.Error(d)
			}
		})
	}
}

// Two nodes with a pod each, and a machine outside: what each sees of the others.
func TestPacketsBetweenNodesAndOutside(t *testing.T) {
	wire := netnstest.New(t, "wire")
	machines := map[string]*netnstest.Namespace{}
	for i, name := range []string{"node1", "node2", "outside"} {
		ns := netnstest.New(t, name)
		machines[name] = ns
		netnstest.Connect(ns, "eth0", wire, name)
		ns.Address("eth0", fmt.Sprintf("192.0.2.1%d/24", i+1))
		ns.Route("0.0.0.0/0", "192.0.2.13", "")
	}
	wire.Bridge("br0", "node1", "node2", "outside")
	nodes := []*corev1.Node{node("node1", "10.77.1.0/24", "192.0.2.11"), node("node2", "10.77.2.0/24", "192.0.2.12")}
	for i, n := range nodes {
		ns := machines[n.Name]
		// A dummy pod: one more address of the node's.
		ns.Address("lo", fmt.Sprintf("10.77.%d.2/32", i+1))
		announced := make(chan []netip.Prefix, 8)
		k := NewKeeper(Config{Node: n.Name, Ranges: ranges, PodCIDRs: func(p []netip.Prefix) error { announced <- p; return nil }})
		for _, n := range nodes {
			k.Update(n)
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
		case got := <-announced:
			if want := fmt.Sprintf("[10.77.%d.0/24]", i+1); fmt.Sprint(got) != want {
				t.Errorf("announced %v, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("pod CIDRs were not announced")
		}
	}
	// "I am" is the peer's address as the listener sees it: content, and proof that there was no translation.
	for _, tt := range []struct{ from, source, to, address, seen string }{
		{"node1", "10.77.1.2", "node2", "10.77.2.2:7000", "10.77.1.2"},
		{"node1", "10.77.1.2", "node2", "192.0.2.12:7000", "10.77.1.2"},
		{"node1", "10.77.1.2", "outside", "192.0.2.13:7000", "192.0.2.11"},
		{"node2", "10.77.2.2", "outside", "192.0.2.13:7000", "192.0.2.12"},
	} {
		if got := seenAs(t, machines[tt.from], tt.source, machines[tt.to], tt.address); got != tt.seen {
			t.Errorf("%s from %s: seen as %s, want %s", tt.address, tt.source, got, tt.seen)
		}
	}
	for _, address := range []string{"10.96.0.1:80", "10.77.99.1:80", "10.77.1.200:80"} {
		began := time.Now()
		err := machines["node1"].Try(func() error { _, err := net.DialTimeout("tcp", address, 5*time.Second); return err })
		if !errors.Is(err, unix.EHOSTUNREACH) || time.Since(began) > 2500*time.Millisecond { // neighbours that do not answer take 3 s
			t.Errorf("%s: %v after %s, want EHOSTUNREACH at once", address, err, time.Since(began))
		}
	}
}

// TestMachineThatIsNoNode has routes to pods and fences, and neither forwards nor masquerades.
func TestMachineThatIsNoNode(t *testing.T) {
	node1, guest := netnstest.New(t, "node1"), netnstest.New(t, "guest")
	netnstest.Connect(node1, "eth0", guest, "eth0")
	node1.Address("eth0", "192.0.2.11/24")
	node1.Address("lo", "10.77.1.2/32") // a pod
	guest.Address("eth0", "192.0.2.30/24")
	guest.Route("0.0.0.0/0", "192.0.2.11", "")
	const forwarding = "/proc/sys/net/ipv4/ip_forward"
	guest.Do(func() error { return os.WriteFile(forwarding, []byte("0"), 0o644) })
	applied := make(chan struct{}, 1)
	k := NewKeeper(Config{Ranges: ranges, Applied: func() { applied <- struct{}{} }})
	k.Update(node("node1", "10.77.1.0/24", "192.0.2.11"))
	k.Synced()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- guest.Try(func() error { return k.Run(ctx) }) }()
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
	if got := seenAs(t, guest, "192.0.2.30", node1, "10.77.1.2:7000"); got != "192.0.2.30" {
		t.Errorf("seen as %s", got)
	}
	for _, address := range []string{"10.96.0.1:80", "10.77.99.1:80"} {
		if err := guest.Try(func() error { _, err := net.DialTimeout("tcp", address, 5*time.Second); return err }); !errors.Is(err, unix.EHOSTUNREACH) {
			t.Errorf("%s: %v, want EHOSTUNREACH", address, err)
		}
	}
	guest.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		if err == nil && len(tables) > 0 {
			t.Errorf("there are tables: %v", tables[0].Name)
		}
		data, err2 := os.ReadFile(forwarding)
		if strings.TrimSpace(string(data)) != "0" {
			t.Errorf("it forwards: %s", data)
		}
		return errors.Join(err, err2)
	})
}

func seenAs(t *testing.T, from *netnstest.Namespace, source string, to *netnstest.Namespace, address string) string {
	t.Helper()
	var l net.Listener
	to.Do(func() (err error) { l, err = net.Listen("tcp", address); return err })
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		fmt.Fprintln(c, host)
	}()
	var c net.Conn
	from.Do(func() (err error) {
		d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		c, err = d.Dial("tcp", address)
		return err
	})
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	var seen string
	if _, err := fmt.Fscanln(c, &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

// Reconcile touches only routes of ours, replaces moved ones and removes those of nodes that are gone.
func TestReconcile(t *testing.T) {
	ns := netnstest.New(t, "node")
	other := netnstest.New(t, "other")
	netnstest.Connect(ns, "eth0", other, "eth0")
	ns.Address("eth0", "192.0.2.1/24")
	ns.Route("198.51.100.0/24", "192.0.2.7", "")
	for _, want := range [][]Route{
		Desired("node1", []*corev1.Node{node("node1", "10.77.1.0/24", "192.0.2.1"), node("node2", "10.77.2.0/24", "192.0.2.2")}, ranges),
		Desired("node1", []*corev1.Node{node("node2", "10.77.2.0/24", "192.0.2.3")}, ranges),
		Desired("node2", []*corev1.Node{node("node2", "10.77.2.0/24", "192.0.2.3")}, ranges), // a route becomes unreachable
		nil,
	} {
		ns.Do(func() error {
			if err := Reconcile(want); err != nil {
				return err
			}
			got, err := List()
			if p := Compare(got, want); err == nil && (len(p.Put)+len(p.Drop) > 0 || len(got) != len(want)) {
				t.Errorf("routes %v, want %v", got, want)
			}
			return err
		})
	}
	ns.Do(func() error {
		err := Reconcile([]Route{{To: netip.MustParsePrefix("10.77.3.0/24"), Gateway: netip.MustParseAddr("203.0.113.1")}})
		if err == nil || !strings.Contains(err.Error(), "not on a network of this node") {
			t.Errorf("a far node's route: %v", err)
		}
		data, err := os.ReadFile("/proc/thread-self/net/route")
		if err == nil && !strings.Contains(string(data), "006433C6") {
			t.Error("a route that is not ours is gone")
		}
		return err
	})
}

// Rules of both families are accepted by the kernel, and a second time replaces the first.
func TestMasqueradeIsReplaced(t *testing.T) {
	ns := netnstest.New(t, "node")
	own := []netip.Prefix{netip.MustParsePrefix("10.77.1.0/24"), netip.MustParsePrefix("fd77:1::/64")}
	pods := Ranges{Pods: []netip.Prefix{netip.MustParsePrefix("10.77.0.0/16"), netip.MustParsePrefix("fd77::/32")}}
	for _, tt := range []struct {
		peers []netip.Addr
		rules int
	}{
		{[]netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("192.0.2.12"), netip.MustParseAddr("2001:db8::11")}, 6},
		{nil, 4},
	} {
		ns.Do(func() error {
			if err := NewMasquerade(own, pods, tt.peers).Apply(); err != nil {
				return err
			}
			c, err := nftables.New()
			if err != nil {
				return err
			}
			table := &nftables.Table{Family: nftables.TableFamilyINet, Name: "howdah"}
			rules, err := c.GetRules(table, &nftables.Chain{Table: table, Name: "masquerade"})
			if err == nil && len(rules) != tt.rules {
				t.Errorf("%d rules, want %d", len(rules), tt.rules)
			}
			if seconds, err := os.ReadFile(closeWaitFile); err != nil || strings.TrimSpace(string(seconds)) != closeWait {
				t.Errorf("half-closed connections live %s s, %v", seconds, err)
			}
			return err
		})
	}
}
