package pinned

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/internal/dump"
)

// Hook is a program for the packets of an interface, and its place among those of others.
type Hook struct {
	// Egress says that it is for those that leave by the interface; else it is for those that come in.
	Egress  bool
	Program *ebpf.Program
	// Pin names the link's file with tcx; Filter names the filter with tc.
	Pin    string
	Filter string
	// Anchor is its place with tcx, link.Head or link.Tail; Priority, one of those below, with tc.
	Anchor   link.Anchor
	Priority uint16
}

// Priorities of tc's filters: the lower are asked first. They leave room for filters of others.
const (
	First  = 10
	Middle = 20
	Last   = 30
)

// AttachTCX puts programs at an interface, in this order, by links that are pinned in dir. Those of an earlier run are switched to the new
// programs in one step, so no packet ever meets none.
func AttachTCX(dir string, index int, name string, hooks ...Hook) error {
	for _, h := range hooks {
		kind := ebpf.AttachTCXIngress
		if h.Egress {
			kind = ebpf.AttachTCXEgress
		}
		err := Link(filepath.Join(dir, h.Pin), h.Program,
			func(i *link.Info) bool { return i.TCX() != nil && int(i.TCX().Ifindex) == index },
			func() (link.Link, error) {
				return link.AttachTCX(link.TCXOptions{Interface: index, Program: h.Program, Attach: kind, Anchor: h.Anchor})
			})
		if err != nil {
			return fmt.Errorf("attach %s at %s (the kernel needs CONFIG_NET_XGRESS): %w", kind, name, err)
		}
	}
	return nil
}

// Interfaces lists the indexes of this node's interfaces by name.
func Interfaces() (map[string]int, error) {
	all, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := map[string]int{}
	for _, i := range all {
		out[i.Attrs().Name] = i.Attrs().Index
	}
	return out, nil
}

// Tidy removes from dir the links whose names are one of the prefixes and an interface that is not there.
func Tidy(dir string, there map[string]int, prefixes ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list pinned links: %w", err)
	}
	var errs []error
	for _, e := range entries {
		for _, prefix := range prefixes {
			name, ours := strings.CutPrefix(e.Name(), prefix)
			if _, ok := there[name]; ours && !ok {
				errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}
