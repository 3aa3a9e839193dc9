package netpol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/route"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

var counter atomic.Int64

// Addresses of the test's node and of what is outside of it.
const (
	nodeAddress     = "192.0.2.1"
	outsideAddress  = "192.0.2.2"
	nodeAddress6    = "fd00:2::1"
	outsideAddress6 = "fd00:2::2"
)

// node is a node with an enforcer that works for real, and a machine outside of it.
type node struct {
	t       *testing.T
	ns      *netnstest.Namespace
	outside *netnstest.Namespace
	pins    string
	// withoutTCX has the load balancer attach by tc's filters.
	withoutTCX bool
	pods       []*machine
	config     func(*Config)
	wrap       func(Maps) Maps
	e          *Enforcer
	stop       func()
}

// machine is a pod with a network.
type machine struct {
	*netnstest.Namespace
	object  *corev1.Pod
	sandbox string
}

func newNode(t *testing.T) *node {
	t.Helper()
	pins := t.TempDir()
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Fatalf("mount a bpf file system (root and CONFIG_BPF_SYSCALL are needed): %v", err)
	}
	n := &node{t: t, ns: netnstest.New(t, "node"), outside: netnstest.New(t, "outside"), pins: filepath.Join(pins, "policy")}
	t.Cleanup(func() {
		if n.stop != nil {
			n.stop()
		}
		var err error
		n.ns.Do(func() error { err = Detach(n.pins); return nil })
		if err := errors.Join(err, unix.Unmount(pins, 0)); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	netnstest.Connect(n.ns, "uplink", n.outside, "eth0")
	n.ns.Sysctl("ipv4/ip_forward", "1")
	n.ns.Sysctl("ipv6/conf/all/forwarding", "1")
	n.ns.Address("uplink", nodeAddress+"/24")
	n.ns.Address("uplink", nodeAddress6+"/64")
	n.outside.Address("eth0", outsideAddress+"/24")
	n.outside.Address("eth0", outsideAddress6+"/64")
	n.outside.Route("10.77.0.0/16", nodeAddress, "")
	n.outside.Route("fd00:77::/64", nodeAddress6, "")
	return n
}

// elsewhere gives the machine outside another address, as those of pods of other nodes are.
func (n *node) elsewhere(address string) {
	n.t.Helper()
	a := netip.MustParseAddr(address)
	cidr := fmt.Sprintf("%s/%d", a, a.BitLen())
	n.outside.Address("lo", cidr)
	gateway := outsideAddress
	if a.Is6() {
		gateway = outsideAddress6
	}
	n.ns.Route(cidr, gateway, "")
}

// podObject is a pod that runs, with the address 10.77.0.<number>, and fd00:77::<number> beside it.
func podObject(namespace, name string, number int, podLabels map[string]string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Labels: podLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: ports}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{
			{IP: fmt.Sprintf("10.77.0.%d", number)}, {IP: fmt.Sprintf("fd00:77::%x", number)},
		}},
	}
}

func namespaceObject(name string, of map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}}
}

// pod gives a pod its interface, as the CNI plugin does.
func (n *node) pod(object *corev1.Pod) *machine {
	n.t.Helper()
	m := &machine{Namespace: netnstest.New(n.t, object.Name), object: object, sandbox: fmt.Sprint(object.Name, counter.Add(1))}
	host := linkOf(m.sandbox)
	netnstest.Connect(n.ns, host, m.Namespace, "eth0")
	n.ns.Address(host, "169.254.1.1/32")
	n.ns.Do(func() error {
		link, err := netlink.LinkByName(host)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr("fe80::1/64")
		if err != nil {
			return err
		}
		a.Flags = unix.IFA_F_NODAD
		return netlink.AddrReplace(link, a)
	})
	for _, ip := range object.Status.PodIPs {
		a := netip.MustParseAddr(ip.IP)
		single := fmt.Sprintf("%s/%d", a, a.BitLen())
		m.Address("eth0", single)
		n.ns.Route(single, "", host)
	}
	m.Route("169.254.1.1/32", "", "eth0")
	m.Route("0.0.0.0/0", "169.254.1.1", "")
	m.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		_, all, _ := net.ParseCIDR("::/0")
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Gw: net.ParseIP("fe80::1")})
	})
	n.pods = append(n.pods, m)
	return m
}

func linkOf(sandbox string) string { return "how" + sandbox[max(0, len(sandbox)-12):] }

// start runs an enforcer over these objects, the pods' own, and their sandboxes, and waits until it works.
func (n *node) start(objects ...any) {
	n.t.Helper()
	cfg := Config{
		Pins: n.pins, Link: linkOf, LocalAddresses: route.LocalAddresses, Log: slog.New(slog.DiscardHandler),
	}
	if n.config != nil {
		n.config(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.wrap != nil {
		e.wrap = n.wrap
	}
	for _, o := range objects {
		e.Update(context.Background(), o)
	}
	for _, m := range n.pods {
		e.Update(context.Background(), m.object)
		e.Adopt(m.object, m.sandbox)
	}
	e.Synced()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.ns.Try(func() error { return e.Run(ctx) }) }()
	select {
	case <-e.Ready():
	case err := <-ended:
		cancel()
		n.t.Fatalf("enforcer ended: %v", err)
	case <-time.After(time.Minute):
		cancel()
		n.t.Fatal("enforcer does not become ready")
	}
	n.e = e
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("enforcer: %v", err)
		}
		n.stop = nil
	}
}

// apply gives objects to the enforcer and waits until they are enforced.
func (n *node) apply(objects ...any) {
	n.t.Helper()
	for _, o := range objects {
		n.e.Update(context.Background(), o)
	}
	n.settled()
}

func (n *node) remove(objects ...any) {
	n.t.Helper()
	for _, o := range objects {
		n.e.Delete(context.Background(), o)
	}
	n.settled()
}

func (n *node) settled() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.e.Settled(ctx); err != nil {
		n.t.Fatalf("enforcer did not settle: %v\n%s", err, n.dump())
	}
}

// programs are those that work for the enforcer.
func (n *node) programs() *datapath { return n.e.metrics.programs.Load() }

func (n *node) dump() string {
	s, err := Dump(n.pins)
	if err != nil {
		return err.Error()
	}
	return s
}

// patience is how long a test waits for what must not come. A packet takes microseconds.
const patience = 300 * time.Millisecond

// passes fails the test if the server does not answer; stopped if it does, or if anything but silence comes.
func (n *node) passes(from *netnstest.Namespace, network, address, why string) {
	n.t.Helper()
	if _, err := from.Ask(network, address, 20*time.Second); err != nil {
		n.t.Errorf("%s: %s %s is not reached: %v\n%s", why, network, address, err, n.dump())
	}
}

func (n *node) stopped(from *netnstest.Namespace, network, address, why string) {
	n.t.Helper()
	who, err := from.Ask(network, address, patience)
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		n.t.Errorf("%s: %s %s: answer %q, error %v; want silence\n%s", why, network, address, who, err, n.dump())
	}
}
