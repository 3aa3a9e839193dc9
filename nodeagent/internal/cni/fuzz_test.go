package cni

import "testing"

// Whatever comes by standard input: an error or a usable configuration, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.1.0","name":"howdah","type":"howdah","podCIDRs":["10.77.0.0/24"],"mtu":1500}`))
	f.Add([]byte(`{"podCIDRs":["fd77::/64","10.0.0.0/31"],"mtu":1500,"prevResult":{"cniVersion":"1.1.0","ips":[{}]}}`))
	f.Add([]byte(`{"runtimeConfig":{"portMappings":[{}]},"podCIDRs":["10.77.0.0/24"],"mtu":1500}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		if _, err := newLedger().allocate(c.prefixes, attachment{Container: "c", Interface: "eth0"}, start); err != nil {
			t.Errorf("an accepted configuration has no address: %v", err)
		}
	})
}
