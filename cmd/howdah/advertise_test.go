package main

import "testing"

func TestAdvertised(t *testing.T) {
	t.Parallel()
	if got := advertised("192.0.2.7:6443"); len(got) != 1 || got[0].String() != "192.0.2.7:6443" {
		t.Errorf("an address that others can reach: %v", got)
	}
	for _, listen := range []string{"127.0.0.1:6443", "0.0.0.0:6443", ":6443"} { // the host may have no other address
		for _, address := range advertised(listen) {
			if address.Port() != 6443 || address.Addr().IsLoopback() || address.Addr().IsUnspecified() {
				t.Errorf("%s: %v", listen, address)
			}
		}
	}
	for _, listen := range []string{"", "127.0.0.1", "127.0.0.1:http-alt", "127.0.0.1:70000"} {
		if got := advertised(listen); got != nil {
			t.Errorf("%q: %v", listen, got)
		}
	}
}
