package iscsi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// Config of an Initiator.
type Config struct {
	// Command runs iscsiadm and multipath.
	Command Command
	// Sys and Dev are where sysfs and the devices are.
	Sys, Dev string
	// Write writes to a file of sysfs.
	Write func(path, text string) error
	// Busy reports whether a device is mounted somewhere on the machine, or part of another device.
	Busy  func(device string) (bool, error)
	Clock clock.Clock
	// Patience is how long a device is waited for, Rest how long for those of further paths, and for the one that is made of all, once there is one.
	Patience, Rest time.Duration
}

// Initiator is the node as targets see it. Who calls it for one target at a time is the caller's to see to.
type Initiator struct{ cfg Config }

// New returns an Initiator.
func New(cfg Config) *Initiator { return &Initiator{cfg} }

// lookEvery is how often it is looked for a device. Neither udev, which may be another container's, nor sysfs tells of one.
const lookEvery = 100 * time.Millisecond

// Connect logs in to the disk's target by way of each portal that there is no session of, and returns the device that the disk is. One portal
// that works is enough.
func (i *Initiator) Connect(ctx context.Context, d *Disk, login Login) (string, error) {
	secrets, err := i.secrets(ctx, d, login)
	if err != nil {
		return "", err
	}
	var up []string
	var problems []error
	for _, portal := range d.Portals {
		if err := i.reach(ctx, d, portal, secrets, login.Begin); err != nil {
			problems = append(problems, err)
			continue
		}
		up = append(up, portal)
	}
	switch {
	case ctx.Err() != nil, len(up) == 0:
		return "", errors.Join(append(problems, ctx.Err())...)
	case len(problems) > 0:
		slog.WarnContext(ctx, "not all portals of an iSCSI target can be used", "target", d.IQN, "err", errors.Join(problems...))
	}
	return i.await(ctx, d, up)
}

// secrets are what the login needs, nothing where nobody has to log in.
func (i *Initiator) secrets(ctx context.Context, d *Disk, login Login) (map[string]string, error) {
	if !d.DiscoveryCHAP && !d.SessionCHAP {
		return nil, nil
	}
	for _, portal := range d.Portals {
		if s, err := i.session(d, portal); err != nil {
			return nil, err
		} else if s == nil {
			return login.Secrets(ctx)
		}
	}
	return nil, nil
}

// await waits for the disk's device by way of portals: for all paths to it, or for one if the others do not come.
func (i *Initiator) await(ctx context.Context, d *Disk, portals []string) (string, error) {
	var paths []string
	started, first := i.cfg.Clock.Now(), time.Time{}
	err := i.poll(ctx, func() (bool, error) {
		var err error
		if paths, err = i.paths(d, portals); err != nil {
			return false, err
		}
		if len(paths) > 0 && first.IsZero() {
			first = i.cfg.Clock.Now()
		}
		return len(paths) == len(portals) || !first.IsZero() && i.cfg.Clock.Since(first) >= i.cfg.Rest || i.cfg.Clock.Since(started) >= i.cfg.Patience, nil
	})
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return "", fmt.Errorf("no device has appeared at %s within %s", filepath.Join(i.byPath(), d.links(portals[0])[0]), i.cfg.Patience)
	}
	return i.whole(ctx, paths)
}

// whole returns the device that is made of several paths to a disk, or the first path where nobody makes one.
func (i *Initiator) whole(ctx context.Context, paths []string) (string, error) {
	names := bases(paths)
	several := len(names) > 1
	started, device := i.cfg.Clock.Now(), ""
	err := i.poll(ctx, func() (bool, error) {
		var err error
		device, _, err = i.multipath(names)
		return device != "" || !several || i.cfg.Clock.Since(started) >= i.cfg.Rest, err
	})
	switch {
	case err != nil:
		return "", err
	case device != "":
		return filepath.Join(i.cfg.Dev, device), nil
	}
	return paths[0], nil
}

// poll looks until it is done.
func (i *Initiator) poll(ctx context.Context, look func() (bool, error)) error {
	for {
		if done, err := look(); done || err != nil {
			return err
		}
		timer := i.cfg.Clock.NewTimer(lookEvery)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (i *Initiator) byPath() string { return filepath.Join(i.cfg.Dev, "disk", "by-path") }

// paths are the devices to which udev's links for the disk lead, those that are there, in the order of the portals.
func (i *Initiator) paths(d *Disk, portals []string) ([]string, error) {
	entries, err := os.ReadDir(i.byPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, portal := range portals {
		for _, e := range entries {
			if !slices.ContainsFunc(d.links(portal), func(link string) bool { return named(e.Name(), link) }) {
				continue
			}
			if device, err := filepath.EvalSymlinks(filepath.Join(i.byPath(), e.Name())); err == nil {
				out = append(out, device)
				break
			}
		}
	}
	return out, nil
}

// named reports whether an entry is the link: that of a network card which speaks iSCSI itself says where the card is first.
func named(entry, link string) bool {
	return entry == link || strings.HasPrefix(entry, "pci-") && strings.HasSuffix(entry, "-"+link)
}

// Is reports whether a device is a disk that the node is logged in to, and asks nobody.
func (i *Initiator) Is(d *Disk, device string) (bool, error) {
	paths, err := i.paths(d, d.Portals)
	if err != nil || slices.Contains(paths, device) {
		return err == nil, err
	}
	made, _, err := i.multipath(bases(paths))
	return err == nil && made != "" && device == filepath.Join(i.cfg.Dev, made), err
}

// bases are the names of devices, each once.
func bases(paths []string) []string {
	names := make([]string, len(paths))
	for n, path := range paths {
		names[n] = filepath.Base(path)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
