package pinned

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// TestDetachTC: filters of a prefix go from all interfaces but those to keep; one whose interface went meanwhile is no error.
func TestDetachTC(t *testing.T) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatalf("load a program (root and CONFIG_BPF_SYSCALL are needed): %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	ns, other := netnstest.New(t, "node"), netnstest.New(t, "other")
	links := map[string]netlink.Link{}
	for _, name := range []string{"goes", "kept", "ends"} {
		netnstest.Connect(ns, name, other, name)
	}
	filters := func(name string) (found []*netlink.BpfFilter) {
		list, err := netlink.FilterList(links[name], netlink.HANDLE_MIN_INGRESS)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			found = append(found, f.(*netlink.BpfFilter))
		}
		return found
	}
	ns.Do(func() (err error) {
		for _, name := range []string{"goes", "kept", "ends"} {
			if links[name], err = netlink.LinkByName(name); err != nil {
				return err
			}
			index := links[name].Attrs().Index
			if err := AttachTC(index, name, Hook{Program: program, Filter: "ours_in", Priority: 1}, Hook{Program: program, Filter: "theirs_in", Priority: 2}); err != nil {
				return err
			}
		}
		ended := filters("ends")
		if err := errors.Join(netlink.LinkDel(links["ends"]), remove(ended[0])); err != nil {
			t.Errorf("a filter whose interface has gone: %v", err)
		}
		if err := DetachTC("ours_", map[int]bool{links["kept"].Attrs().Index: true}); err != nil {
			return err
		}
		if left := filters("goes"); len(left) != 1 || left[0].Name != "theirs_in" {
			t.Errorf("left of two: %v", left)
		}
		if left := filters("kept"); len(left) != 2 {
			t.Errorf("left where all were to be kept: %v", left)
		}
		return nil
	})
}
