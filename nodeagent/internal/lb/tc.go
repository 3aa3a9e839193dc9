package lb

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/internal/pinned"
)

// tcFilterPrefix begins the names of our filters: by it, those of an earlier run are found again.
const tcFilterPrefix = "howdah_lb_"

// attachTC puts the programs at the uplinks as filters of tc's clsact queue.
func (d *datapath) attachTC() error {
	keep := map[int]bool{}
	for _, name := range d.at.Uplinks {
		uplink, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("uplink %s: %w", name, err)
		}
		keep[uplink.Index] = true
		// The way back first: nothing is translated on the way in before it stands.
		if err := pinned.AttachTC(uplink.Index, name,
			pinned.Filter{Name: tcFilterPrefix + "egress", Parent: netlink.HANDLE_MIN_EGRESS, Program: d.objects.LbEgress},
			pinned.Filter{Name: tcFilterPrefix + "ingress", Parent: netlink.HANDLE_MIN_INGRESS, Program: d.objects.LbIngress}); err != nil {
			return err
		}
	}
	return pinned.DetachTC(tcFilterPrefix, keep)
}
