package main

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// advertised is where the Service kubernetes leads when nothing says so: to the address that is listened on or, as with
// kube-apiserver, to the host's own on its default route where that is none that others can reach.
func advertised(listen string) []netip.AddrPort {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil // opening the listener tells
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	ip := net.ParseIP(host)
	if ip == nil {
		ip = net.IPv4zero
	}
	resolved, err := utilnet.ResolveBindAddress(ip)
	if err != nil {
		slog.Warn("the Service kubernetes has no endpoints: set --gateway-endpoints", "err", err)
		return nil
	}
	address, ok := netip.AddrFromSlice(resolved)
	if !ok {
		return nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(address.Unmap(), uint16(number))}
}
