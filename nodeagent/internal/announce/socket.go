package announce

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// wire is the interface's ARP traffic.
type wire struct {
	*os.File
	mac net.HardwareAddr
}

// open listens to the interface's ARP frames. It takes CAP_NET_RAW.
func open(name string) (*wire, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if len(link.HardwareAddr) != 6 {
		return nil, fmt.Errorf("interface %s has no Ethernet address", name)
	}
	order := uint16(etherARP<<8&0xff00 | etherARP>>8) // in the network's order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(order))
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: order, Ifindex: link.Index}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to %s: %w", name, err)
	}
	return &wire{os.NewFile(uintptr(fd), "arp:"+name), link.HardwareAddr}, nil
}
