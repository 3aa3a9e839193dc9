// Package iscsi has open-iscsi log in to targets, and finds the devices that are made of their disks.
package iscsi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

const (
	// usualPort is that of portals for which nobody names one.
	usualPort = 3260
	// usualInterface is that of open-iscsi which is there without anybody's doing.
	usualInterface = "default"
)

// Disk is a logical unit of a target, and how the target is logged in to.
type Disk struct {
	// Portals are addresses with ports, each once. The first names the disk.
	Portals []string `json:"portals"`
	IQN     string   `json:"iqn"`
	LUN     int32    `json:"lun"`
	// Interface is that of open-iscsi which sessions are made with.
	Interface string `json:"iface"`
	// Initiator is the name that the node has for the target. Then Interface is made for it, as a copy of Base.
	Initiator string `json:"initiatorName,omitempty"`
	Base      string `json:"initIface,omitempty"`
	// DiscoveryCHAP and SessionCHAP say that the target asks for a password, and who lists the targets.
	DiscoveryCHAP bool `json:"chapDiscovery,omitempty"`
	SessionCHAP   bool `json:"chapSession,omitempty"`
}

// Of returns the disk of a volume. What would lead iscsiadm astray is refused: it makes paths of names.
func Of(volume string, s *corev1.ISCSIVolumeSource) (Disk, error) {
	d := Disk{IQN: s.IQN, LUN: s.Lun, Interface: s.ISCSIInterface, DiscoveryCHAP: s.DiscoveryCHAPAuth, SessionCHAP: s.SessionCHAPAuth}
	if d.Interface == "" {
		d.Interface = usualInterface
	}
	known := map[string]bool{}
	for _, text := range append([]string{s.TargetPortal}, s.Portals...) {
		portal, err := portalOf(text)
		if err != nil {
			return Disk{}, err
		}
		if !known[portal] {
			known[portal], d.Portals = true, append(d.Portals, portal)
		}
	}
	if err := checkName("iqn", d.IQN); err != nil {
		return Disk{}, err
	}
	if d.Interface == "." || d.Interface == ".." || strings.HasPrefix(d.Interface, "-") || strings.ContainsFunc(d.Interface, odd) {
		return Disk{}, fmt.Errorf("%q is no name of an iSCSI interface", d.Interface)
	}
	if s.InitiatorName != nil {
		if err := checkName("initiatorName", *s.InitiatorName); err != nil {
			return Disk{}, err
		}
		d.Initiator, d.Base, d.Interface = *s.InitiatorName, d.Interface, d.Portals[0]+":"+volume
	}
	return d, nil
}

// portalOf returns where a portal is, as iscsiadm writes it.
func portalOf(text string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" {
		return netip.AddrPortFrom(a, usualPort).String(), nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil && a.Addr().Zone() == "" {
		return a.String(), nil
	}
	return "", fmt.Errorf("portal %q is not an address, and not an address with a port", text)
}

// spellings are the usual ones of a portal.
func spellings(portal string) []string {
	out := []string{portal}
	if a, err := netip.ParseAddrPort(portal); err == nil && a.Port() == usualPort {
		out = append(out, a.Addr().String())
		if a.Addr().Is6() {
			out = append(out, "["+a.Addr().String()+"]")
		}
	}
	return out
}

// checkName looks at the name of a target or an initiator.
func checkName(what, name string) error {
	for _, start := range []string{"iqn.", "eui.", "naa."} {
		if strings.HasPrefix(name, start) && !strings.ContainsFunc(name, odd) {
			return nil
		}
	}
	return fmt.Errorf("%s %q is no iSCSI name", what, name)
}

// odd reports whether no name has a character.
func odd(r rune) bool { return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) }

// Key names the disk among those of the node, as Kubernetes names its folder.
func (d *Disk) Key() string {
	return fmt.Sprintf("%s-%s-lun-%d", d.Portals[0], d.IQN, d.LUN)
}

// links are the names that udev may have for the disk's device by way of a portal: it writes IPv6 without brackets, older ones with them.
func (d *Disk) links(portal string) []string {
	name := func(at string) string { return "ip-" + at + "-iscsi-" + d.IQN + "-lun-" + strconv.Itoa(int(d.LUN)) }
	names := []string{name(portal)}
	if a, err := netip.ParseAddrPort(portal); err == nil && a.Addr().Is6() {
		names = append(names, name(a.Addr().String()+":"+strconv.Itoa(int(a.Port()))))
	}
	return names
}
