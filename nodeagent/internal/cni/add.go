package cni

import (
	"errors"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netns"
)

// plugin carries the clock.
type plugin struct{ now func() time.Time }

// add gives the sandbox its interface. A second add for the same sandbox gives it the same address again.
func (p plugin) add(args *skel.CmdArgs) error {
	began := p.now()
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if c.PrevResult != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "howdah has to be the first plugin of the list", "")
	}
	ns, err := netns.GetFromPath(args.Netns)
	if err != nil {
		return types.NewError(types.ErrInvalidNetNS, "open network namespace "+args.Netns, err.Error())
	}
	defer ns.Close()
	who := attachment{Container: args.ContainerID, Interface: args.IfName}

	var addresses []netip.Addr
	err = change(c.DataDir, func(l *ledger) (err error) {
		if addresses, err = l.allocate(c.prefixes, who, p.now()); err != nil {
			return types.NewError(types.ErrTryAgainLater, err.Error(), "")
		}
		return nil
	})
	if err != nil {
		return err
	}
	links, err := connect(ns, who, addresses, c.MTU)
	if err != nil {
		// The runtime calls DEL after a failed ADD; undo anyway, in case it dies first.
		return errors.Join(err, disconnect(who), change(c.DataDir, func(l *ledger) error {
			l.release(who, p.now())
			return nil
		}))
	}
	// A pod without a span is better than no pod.
	_ = Timings{c.DataDir}.leave(args.ContainerID, Added{Began: began, Ended: p.now(), Addresses: addresses})
	return types.PrintResult(result(c, args, addresses, links), c.CNIVersion)
}

func result(c *conf, args *skel.CmdArgs, addresses []netip.Addr, links *pair) *types100.Result {
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: links.host.Name, Mac: links.host.HardwareAddr.String(), Mtu: c.MTU},
			{Name: links.pod.Name, Mac: links.pod.HardwareAddr.String(), Mtu: c.MTU, Sandbox: args.Netns},
		},
	}
	for _, a := range addresses {
		gateway, all := gateway4, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if a.Is6() {
			gateway, all = gateway6, netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		r.IPs = append(r.IPs, &types100.IPConfig{Interface: types100.Int(1), Address: *single(a), Gateway: gateway.AsSlice()})
		r.Routes = append(r.Routes, &types.Route{Dst: *ipNet(all), GW: gateway.AsSlice()})
	}
	return r
}
