package cni

import (
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"howdah.dev/nodeagent/internal/dump"
)

// check compares what add had answered with what is there.
func (p plugin) check(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if c.PrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs the prevResult of ADD", "")
	}
	before, err := types100.NewResultFromResult(c.PrevResult)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "prevResult cannot be read", err.Error())
	}
	who := attachment{Container: args.ContainerID, Interface: args.IfName}
	if _, err := netlink.LinkByName(hostLink(who)); err != nil {
		return fmt.Errorf("host link %s: %w", hostLink(who), err)
	}
	var leased map[netip.Addr]bool
	if err := change(c.DataDir, func(l *ledger) error { leased = l.of(who); return nil }); err != nil {
		return err
	}
	present, err := podAddresses(args)
	if err != nil {
		return err
	}
	for _, ip := range before.IPs {
		addr, ok := netip.AddrFromSlice(ip.Address.IP)
		addr = addr.Unmap()
		switch {
		case !ok:
			return fmt.Errorf("prevResult has a bad address %s", ip.Address.IP)
		case !leased[addr]:
			return fmt.Errorf("address %s is not leased to %s", addr, args.ContainerID)
		case !present[addr]:
			return fmt.Errorf("address %s is not set on %s", addr, args.IfName)
		}
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err != nil || len(routes) == 0 {
			return fmt.Errorf("the host has no route to %s: %v", addr, err)
		}
	}
	return nil
}

func podAddresses(args *skel.CmdArgs) (map[netip.Addr]bool, error) {
	ns, err := netns.GetFromPath(args.Netns)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidNetNS, "open network namespace "+args.Netns, err.Error())
	}
	defer ns.Close()
	pod, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("enter the pod's network namespace: %w", err)
	}
	defer pod.Close()
	link, err := pod.LinkByName(args.IfName)
	if err != nil {
		return nil, fmt.Errorf("pod link %s: %w", args.IfName, err)
	}
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return pod.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list pod addresses: %w", err)
	}
	out := map[netip.Addr]bool{}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			out[addr.Unmap()] = true
		}
	}
	return out, nil
}
