package nodeagent

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNodeAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1, fd00::1": "192.0.2.1 fd00::1", "fd00::1,192.0.2.1": "fd00::1 192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"": "", "node1": "", "192.0.2.1,192.0.2.2": "", "192.0.2.1,fd00::1,fd00::2": "",
	} {
		if _, err := parseNodeIP(text); (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		} else if got := strings.Join(Config{NodeIP: text}.hostIPs(), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A machine's IPv6 address is the node's where its pods have some, and where it has no other.
func TestNodeTakesTheMachinesAddresses(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd77::/56")
	for _, tt := range []struct {
		machine string
		network *Network
		want    string
	}{
		{"192.0.2.1 fd00::1", nil, "192.0.2.1"},
		{"192.0.2.1 fd00::1", &Network{PodCIDRs: []netip.Prefix{v4}}, "192.0.2.1"},
		{"192.0.2.1 fd00::1", &Network{PodCIDRs: []netip.Prefix{v4, v6}}, "192.0.2.1,fd00::1"},
		{"192.0.2.1", &Network{PodCIDRs: []netip.Prefix{v4, v6}}, "192.0.2.1"},
		{"fd00::1", &Network{PodCIDRs: []netip.Prefix{v4}}, "fd00::1"},
	} {
		if got, err := (Config{Network: tt.network}).nodeIPs(strings.Fields(tt.machine)); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.machine, got, err, tt.want)
		}
	}
}
