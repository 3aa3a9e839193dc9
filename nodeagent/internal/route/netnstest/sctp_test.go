package netnstest

import (
	"bytes"
	"testing"
	"time"
)

// What tests of balancing rely on: an association carries words and long messages between two namespaces, over both families.
func TestSCTP(t *testing.T) {
	a, b := New(t, "a"), New(t, "b")
	Connect(a, "eth0", b, "eth0")
	for _, tt := range []struct{ client, server, at string }{
		{"192.0.2.1/24", "192.0.2.2/24", "192.0.2.2:5001"},
		{"fd00::1/64", "fd00::2/64", "[fd00::2]:5001"},
	} {
		a.Address("eth0", tt.client)
		b.Address("eth0", tt.server)
		b.Echo(t, "sctp", tt.at, "b")
		c, err := a.DialSCTP(tt.at, 7777, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if name, err := Talk(c, time.Minute); name != "b" || err != nil {
				t.Fatalf("%s: %q, %v", tt.at, name, err)
			}
		}
		long := bytes.Repeat([]byte("x"), 50000)
		if _, err := c.Write(long); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1<<20)
		if n, err := c.Read(got); err != nil || string(got[:n]) != "b "+string(long) {
			t.Errorf("%s: %d bytes came back, %v", tt.at, n, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := a.DialSCTP(tt.at[:len(tt.at)-1]+"9", 0, 200*time.Millisecond); err == nil {
			t.Errorf("%s: an association with nobody", tt.at)
		}
	}
}
