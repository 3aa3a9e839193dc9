package cni

import (
	"errors"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// del takes the interface and the address back. It may come twice, or without an add, or after the namespace is gone.
func (p plugin) del(args *skel.CmdArgs) error {
	c, err := decode(args.StdinData)
	if err != nil {
		return err
	}
	who := attachment{Container: args.ContainerID, Interface: args.IfName}
	// The link first: an address is free only when nothing can answer to it.
	if err := disconnect(who); err != nil {
		return err
	}
	return errors.Join(Timings{c.DataDir}.drop(args.ContainerID), change(c.DataDir, func(l *ledger) error {
		l.release(who, p.now())
		return nil
	}))
}

// gc takes back what belongs to no attachment that the runtime still knows.
func (p plugin) gc(args *skel.CmdArgs) error {
	c, err := decode(args.StdinData)
	if err != nil {
		return err
	}
	valid, sandboxes := map[attachment]bool{}, map[string]bool{}
	for _, v := range c.ValidAttachments {
		sandboxes[v.ContainerID] = true
		valid[attachment{Container: v.ContainerID, Interface: v.IfName}] = true
	}
	return errors.Join(Timings{c.DataDir}.retain(sandboxes), change(c.DataDir, func(l *ledger) error {
		for _, gone := range l.retain(valid, p.now()) {
			if err := disconnect(gone); err != nil {
				return err
			}
		}
		return nil
	}))
}

// codeNotAvailable is the specification's "plugin is not available" for STATUS.
const codeNotAvailable = 50

// status says whether an add could work: configuration, folder, and a free address.
func (p plugin) status(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	err = change(c.DataDir, func(l *ledger) error {
		for _, prefix := range c.prefixes {
			if _, err := l.next(prefix, p.now()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return types.NewError(codeNotAvailable, err.Error(), "")
	}
	return nil
}
