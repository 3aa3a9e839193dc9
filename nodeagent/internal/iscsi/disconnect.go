package iscsi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Leave is what of a disk's login the node gives up.
type Leave struct {
	// Mine are the portals by way of which the node has logged in for pods. Devices of other sessions are left alone: an administrator made them.
	Mine []string
	// Out are those of them by way of which nothing else of the target is in use.
	Out []string
	// Interface says that nobody else uses the one that was made for the disk.
	Interface bool
}

// Disconnect takes a disk from the node. It fails before it does anything where somebody still uses the disk, and may be tried again after any
// failure.
func (i *Initiator) Disconnect(ctx context.Context, d *Disk, leave Leave) error {
	if err := i.removeDevices(ctx, d, leave.Mine); err != nil {
		return err
	}
	var problems []error
	for _, portal := range leave.Out {
		problems = append(problems, i.logout(ctx, d, portal))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if leave.Interface && d.Initiator != "" {
		return i.removeInterface(ctx, d)
	}
	return nil
}

// removeDevices removes the devices of a disk: first the one that is made of several, then each, and none that is in use.
func (i *Initiator) removeDevices(ctx context.Context, d *Disk, portals []string) error {
	names, err := i.devices(d, portals)
	if err != nil {
		return err
	}
	device, name, err := i.multipath(names)
	if err != nil {
		return err
	}
	if device != "" {
		if err := i.idle(device); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, otherWithin)
		defer cancel()
		said, code, err := i.cfg.Command(ctx, "multipath", "-f", name)
		if err == nil && code != 0 {
			err = fmt.Errorf("multipath ended with %d: %s", code, said)
		}
		if err != nil {
			return fmt.Errorf("remove the multipath device %s: %w", name, err)
		}
	}
	for _, name := range names {
		if err := i.idle(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := i.cfg.Write(filepath.Join(i.cfg.Sys, "block", name, "device", "delete"), "1"); err != nil {
			return fmt.Errorf("remove the device %s: %w", name, err)
		}
	}
	return nil
}

// idle says that a device is in use: what was written there is lost if it goes, and a file system that is mounted is left without its disk.
func (i *Initiator) idle(name string) error {
	busy, err := i.cfg.Busy(filepath.Join(i.cfg.Dev, name))
	if err == nil && busy {
		err = fmt.Errorf("%s is still in use", filepath.Join(i.cfg.Dev, name))
	}
	return err
}

// logout ends a session and has open-iscsi forget it, with the password of it. A node that was made anew may have forgotten already what the kernel
// still has: then the session is named by itself.
func (i *Initiator) logout(ctx context.Context, d *Disk, portal string) error {
	s, err := i.session(d, portal)
	if err != nil {
		return err
	}
	step := fmt.Sprintf("log out of %s at %s", d.IQN, portal)
	if s != nil {
		if _, err := i.admin(ctx, call{step: step, fine: []int{nothingFound}}, with(d.node(portal), "--logout")...); err != nil {
			return err
		}
		if s, err = i.session(d, portal); err != nil {
			return err
		}
	}
	if s != nil {
		if _, err := i.admin(ctx, call{step: step, fine: []int{nothingFound}}, "-m", "session", "-r", s.id, "--logout"); err != nil {
			return err
		}
	}
	_, err = i.admin(ctx, call{step: "forget " + d.IQN, fine: []int{nothingFound}}, with(d.node(portal), "-o", "delete")...)
	return err
}

// Busy reports whether a device is in use: mounted, in whatever mount namespace, or part of another device. Containers that merely have it open do
// not count.
func Busy(device string) (bool, error) {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return false, unix.Close(fd)
	case errors.Is(err, unix.EBUSY):
		return true, nil
	}
	return false, nil // a device of which nothing can be read is not to stay for ever
}
