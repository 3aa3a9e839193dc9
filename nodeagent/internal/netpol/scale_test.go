package netpol

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// A packet costs the same with 10 and with 10,000 policies, be it let pass or dropped. The kernel runs the program over and over on one
// packet of a pod whose interface is the namespace's loopback: that is what its test runs have.
func TestCostDoesNotGrowWithPolicies(t *testing.T) {
	n := newNode(t)
	self := podObject("default", "self", 1, map[string]string{"app": "self"})
	policies := func(count int) []any {
		out := []any{namespaceObject("default", nil)}
		for i := range count {
			app := fmt.Sprint("a", i)
			out = append(out, podObject("default", app, 0, map[string]string{"app": app}))
			out[len(out)-1] = withAddress(out[len(out)-1], netip.AddrFrom4([4]byte{10, 80, byte(i / 250), byte(i % 250)}))
			out = append(out, policyObject(t, fmt.Sprintf(
				`{metadata: {name: %s}, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: %s}}}], ports: [{port: %d, protocol: UDP}]}]}}`, app, app, 1000+i%200)))
		}
		return out
	}
	n.config = func(c *Config) { c.Link = func(string) string { return "lo" }; c.LocalAddresses = nil }
	n.pods = []*machine{{Namespace: n.ns, object: self, sandbox: "self"}}
	n.ns.Route("10.77.0.1/32", "", "lo") // the pod's packets are its own
	n.start(policies(10)...)
	few := n.cost(t)
	began := time.Now()
	n.apply(policies(10000)...)
	filled := time.Since(began)
	many := n.cost(t)
	began = time.Now()
	n.apply(withAddress(podObject("default", "a5000", 0, map[string]string{"app": "a5000"}), netip.MustParseAddr("10.81.0.1")))
	changed := time.Since(began)
	for i, what := range []string{"passes", "is dropped"} {
		ratio := float64(many[i]) / float64(few[i])
		t.Logf("a packet that %s: %s with 10 policies, %s with 10,000, ratio %.2f", what, few[i], many[i], ratio)
		if ratio > 3 {
			t.Errorf("a packet that %s costs %.2f times as much with 1,000 times the policies", what, ratio)
		}
	}
	t.Logf("filling the maps: %s; one pod's change among 10,000: %s", filled, changed)
}

// cost is that of the best batch, per packet, of one that passes and of one that does not.
func (n *node) cost(t *testing.T) [2]time.Duration {
	t.Helper()
	var out [2]time.Duration
	n.ns.Do(func() error {
		d, _, err := loadDatapath(Config{Pins: n.pins, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer d.close()
		for i, port := range []uint16{1003, 2003} {
			packet := udpPacket(netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.80.0.3"), port)
			verdict, err := d.objects.PolicyFromPod.Run(&ebpf.RunOptions{Data: packet})
			if want := []uint32{0xffffffff, 2}[i]; err != nil || verdict != want {
				return fmt.Errorf("port %d: verdict %d, error %v; want %d\n%s", port, verdict, err, want, n.dump())
			}
			var costs []time.Duration
			for range 20 {
				_, cost, err := d.objects.PolicyFromPod.Benchmark(packet, 20000, func() {})
				if err != nil {
					return err
				}
				costs = append(costs, cost)
			}
			out[i] = slices.Min(costs)
		}
		return nil
	})
	return out
}

func udpPacket(from, to netip.Addr, port uint16) []byte {
	b := make([]byte, 64)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, protocolUDP
	binary.BigEndian.PutUint16(ip[2:], 50)
	copy(ip[12:], from.AsSlice())
	copy(ip[16:], to.AsSlice())
	binary.BigEndian.PutUint16(ip[20:], 40000)
	binary.BigEndian.PutUint16(ip[22:], port)
	return b
}
