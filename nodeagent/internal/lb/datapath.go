package lb

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// Attachment says where the programs run.
type Attachment struct {
	// Cgroup is the node's cgroup2 root, e.g. /sys/fs/cgroup/unified: its processes and all its pods are below.
	Cgroup string
	// Uplinks are the names of the interfaces by which traffic from outside comes in. Empty: NodePorts answer
	// only to processes of the cluster.
	Uplinks []string
	// Overlay is the interface of the tunnel to nodes on other networks; "" is none. Like at an uplink, what comes by it is balanced.
	Overlay string
	// WithoutTCX attaches at interfaces by filters of tc even where the kernel has tcx.
	WithoutTCX bool
	// Pins is a folder on a bpffs, e.g. /sys/fs/bpf/howdah/lb. Maps and links are kept there over restarts.
	Pins string
	// NodeAddresses are this node's own, the first of each family: the source towards other nodes for clients that did not dial a node's address.
	NodeAddresses []netip.Addr
}

// datapath is the loaded programs and maps.
type datapath struct {
	at      Attachment
	tcx     bool
	objects bpf.LBObjects
	barrier *pinned.Barrier
}

// loadDatapath loads the programs over the pinned maps, and creates those that are missing. What is attached
// already goes on running until attach. Reused says whether maps of an earlier run were found.
func loadDatapath(at Attachment) (d *datapath, reused bool, err error) {
	if err := pinned.Folder(at.Pins); err != nil {
		return nil, false, err
	}
	spec, err := bpf.LoadLB()
	if err != nil {
		return nil, false, err
	}
	cookie, err := netnsCookie()
	if err != nil {
		return nil, false, err
	}
	if err := spec.Variables[bpf.LBVarHostNetns].Set(cookie); err != nil {
		return nil, false, fmt.Errorf("set host_netns: %w", err)
	}
	for _, name := range []string{bpf.LBVarNodeIpv4, bpf.LBVarNodeIpv6} {
		i := slices.IndexFunc(at.NodeAddresses, func(a netip.Addr) bool { return a.Is4() == (name == bpf.LBVarNodeIpv4) })
		if i < 0 {
			continue
		}
		if err := spec.Variables[name].Set(bpf.Address(at.NodeAddresses[i])); err != nil {
			return nil, false, fmt.Errorf("set %s: %w", name, err)
		}
	}
	if at.Overlay != "" {
		tunnel, err := net.InterfaceByName(at.Overlay)
		if err != nil {
			return nil, false, fmt.Errorf("overlay %s: %w", at.Overlay, err)
		}
		if err := spec.Variables[bpf.LBVarOverlay].Set(uint32(tunnel.Index)); err != nil {
			return nil, false, fmt.Errorf("set %s: %w", bpf.LBVarOverlay, err)
		}
		at.Uplinks = append(slices.Clone(at.Uplinks), at.Overlay)
	}
	d = &datapath{at: at}
	if reused, err = pinned.Load(spec, &d.objects, at.Pins); err != nil {
		return nil, false, explainLoad(err)
	}
	if d.barrier, err = pinned.NewBarrier(); err != nil {
		return nil, false, errors.Join(err, d.objects.Close())
	}
	if !at.WithoutTCX {
		if d.tcx, err = pinned.SupportsTCX(d.objects.LbEgress); err != nil {
			return nil, false, errors.Join(err, d.close())
		}
	}
	return d, reused, nil
}

func (d *datapath) maps() Maps { return kernelMaps(&d.objects, d.barrier.Wait) }

// close frees the agent's hold; what is pinned stays and works on.
func (d *datapath) close() error {
	return errors.Join(d.objects.Close(), d.barrier.Close())
}

// netnsCookie names the network namespace that the agent runs in, as programs see it.
func netnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("the kernel has no SO_NETNS_COOKIE (it needs Linux 5.14): %w", err)
	}
	return cookie, nil
}

func explainLoad(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return fmt.Errorf("the kernel refuses the load balancer's programs (they need Linux 5.18): %+v", verifier)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("not allowed to load eBPF programs (CAP_SYS_ADMIN, or CAP_BPF and CAP_NET_ADMIN, is needed): %w", err)
	}
	return fmt.Errorf("load eBPF programs: %w", err)
}
