package lb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/bpf"
)

// Attachment says where the programs run.
type Attachment struct {
	// Cgroup is the node's cgroup2 root, e.g. /sys/fs/cgroup/unified: its processes and all its pods are below.
	Cgroup string
	// Uplinks are the names of the interfaces by which traffic from outside comes in. Empty: NodePorts answer
	// only to processes of the cluster.
	Uplinks []string
	// WithoutTCX attaches at the uplinks by filters of tc even where the kernel has tcx.
	WithoutTCX bool
	// Pins is a folder on a bpffs, e.g. /sys/fs/bpf/howdah/lb. Maps and links are kept there over restarts.
	Pins string
	// NodeIPv4 is the source towards other nodes for clients that did not dial a node's address.
	NodeIPv4 netip.Addr
}

// datapath is the loaded programs and maps.
type datapath struct {
	at      Attachment
	objects bpf.LBObjects
	barrier *ebpf.Map
	inner   *ebpf.Map
}

// loadDatapath loads the programs over the pinned maps, and creates those that are missing. What is attached
// already goes on running until attach. Reused says whether maps of an earlier run were found.
func loadDatapath(at Attachment) (d *datapath, reused bool, err error) {
	if err := checkPins(at.Pins); err != nil {
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
	if at.NodeIPv4.Is4() {
		b := at.NodeIPv4.As4()
		if err := spec.Variables[bpf.LBVarNodeIpv4].Set(binary.NativeEndian.Uint32(b[:])); err != nil {
			return nil, false, fmt.Errorf("set node_ipv4: %w", err)
		}
	}
	d = &datapath{at: at}
	_, statErr := os.Stat(filepath.Join(at.Pins, bpf.LBMapFrontends))
	reused = statErr == nil
	options := &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: at.Pins}}
	err = spec.LoadAndAssign(&d.objects, options)
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		// An agent of another version ran here. Its programs keep its maps alive until ours are attached.
		reused = false
		for name, m := range spec.Maps {
			if m.Pinning != ebpf.PinByName {
				continue
			}
			if err := os.Remove(filepath.Join(at.Pins, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, false, fmt.Errorf("remove outdated map: %w", err)
			}
		}
		err = spec.LoadAndAssign(&d.objects, options)
	}
	if err != nil {
		return nil, false, explainLoad(err)
	}
	if d.barrier, d.inner, err = newBarrier(); err != nil {
		return nil, false, errors.Join(err, d.objects.Close())
	}
	return d, reused, nil
}

func (d *datapath) maps() Maps { return kernelMaps(&d.objects, d.barrier, d.inner) }

// close frees the agent's hold; what is pinned stays and works on.
func (d *datapath) close() error {
	return errors.Join(d.objects.Close(), d.barrier.Close(), d.inner.Close())
}

// checkPins makes the folder and makes sure that it is on a bpffs.
func checkPins(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for pinned maps: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not on a bpf file system: mount one, e.g. `mount -t bpf bpf /sys/fs/bpf`", dir)
	}
	return nil
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
