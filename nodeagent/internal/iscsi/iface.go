package iscsi

import (
	"context"
	"fmt"
	"strings"
)

// makeInterface makes the interface with which the node has a name of its own for the target: a copy of another, but for that name.
func (i *Initiator) makeInterface(ctx context.Context, d *Disk) error {
	if d.Initiator == "" {
		return nil
	}
	if used, err := i.sessions(func(s *session) bool { return s.iface == d.Interface }); err != nil || len(used) > 0 {
		return err // it is there, and iscsiadm changes none that is in use
	}
	said, err := i.admin(ctx, call{step: "look at the interface " + d.Base}, "-m", "iface", "-I", d.Base, "-o", "show")
	if err != nil {
		return err
	}
	iface := []string{"-m", "iface", "-I", d.Interface}
	if _, err := i.admin(ctx, call{step: "make the interface " + d.Interface, fine: []int{sessionExists}}, with(iface, "-o", "new")...); err != nil {
		return err
	}
	for _, s := range copied(said, d.Initiator) {
		if _, err := i.admin(ctx, call{step: fmt.Sprintf("set %s of the interface %s", s.name, d.Interface)}, set(iface, s.name, s.value)...); err != nil {
			return err
		}
	}
	return nil
}

// setting is one of open-iscsi's.
type setting struct{ name, value string }

// copied are the settings of an interface that is a copy of the one which iscsiadm shows, but for the initiator's name.
func copied(shown, initiator string) []setting {
	var out []setting
	for line := range strings.Lines(shown) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok, !strings.HasPrefix(name, "iface."), value == "", value == "<empty>", name == "iface.iscsi_ifacename", name == "iface.initiatorname":
			continue
		}
		out = append(out, setting{name, value})
	}
	return append(out, setting{"iface.initiatorname", initiator})
}

// removeInterface removes one that was made.
func (i *Initiator) removeInterface(ctx context.Context, d *Disk) error {
	_, err := i.admin(ctx, call{step: "remove the interface " + d.Interface, fine: []int{nothingFound}}, "-m", "iface", "-I", d.Interface, "-o", "delete")
	return err
}
