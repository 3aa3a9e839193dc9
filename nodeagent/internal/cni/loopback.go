package cni

import (
	"encoding/json"
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// addLoopback is the plugin that containerd runs first for every sandbox.
func addLoopback(args *skel.CmdArgs) error {
	var c types.PluginConf
	if err := json.Unmarshal(args.StdinData, &c); err != nil {
		return types.NewError(types.ErrDecodingFailure, "network configuration is not valid JSON", err.Error())
	}
	pod, closeAll, err := podHandle(args.Netns)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := up(pod, "lo"); err != nil {
		return err
	}
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: "lo", Mac: "00:00:00:00:00:00", Sandbox: args.Netns}},
		IPs:        []*types100.IPConfig{{Interface: types100.Int(0), Address: net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}}},
	}
	return types.PrintResult(r, c.CNIVersion)
}

func checkLoopback(args *skel.CmdArgs) error {
	pod, closeAll, err := podHandle(args.Netns)
	if err != nil {
		return err
	}
	defer closeAll()
	lo, err := pod.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if lo.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("lo is down")
	}
	return nil
}

func podHandle(path string) (*netlink.Handle, func(), error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, nil, types.NewError(types.ErrInvalidNetNS, "open network namespace "+path, err.Error())
	}
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return nil, nil, fmt.Errorf("enter the pod's network namespace: %w", err)
	}
	return h, func() { h.Close(); ns.Close() }, nil
}
