package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/iscsi"
)

// sweepEvery is how often it is looked for disks that nobody has any more, though nothing was heard.
const sweepEvery = 30 * time.Second

// usersISCSI are the pods that have iSCSI disks, whether the API knows them still or not.
func (m *Manager) usersISCSI() []types.UID {
	all, _ := m.records.All() // who cannot be read is told of by the sweep
	var uids []types.UID
	for _, r := range all {
		for _, u := range r.Users {
			uids = append(uids, u.Pod)
		}
	}
	return uids
}

// releaseISCSI takes its iSCSI disks from a pod of which nothing runs any more. The node gives them back in its own time: a target that does not answer
// keeps no pod from going.
func (m *Manager) releaseISCSI(ctx context.Context, uid types.UID) error {
	all, _ := m.records.All()
	var problems []error
	for i := range all {
		if all[i].Of(uid) {
			problems = append(problems, m.releaseDisk(ctx, &all[i].Disk, uid))
		}
	}
	return errors.Join(problems...)
}

func (m *Manager) releaseDisk(ctx context.Context, d *iscsi.Disk, uid types.UID) error {
	end, err := m.targets.Take(ctx, d.IQN)
	if err != nil {
		return fmt.Errorf("another operation with %s is under way: %w", d.IQN, err)
	}
	defer end()
	r, err := m.records.Read(d)
	if err != nil {
		return err
	}
	// Mounts of parts of a volume keep all of it.
	if err := m.unmountBelow(filepath.Join(m.cfg.RootDir, "pods", string(uid), "volume-subpaths")); err != nil {
		return err
	}
	for _, u := range slices.Clone(r.Users) {
		if u.Pod != uid {
			continue
		}
		if err := m.takeISCSI(u); err != nil {
			return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", u.Name, err)
		}
		r.Drop(u.Pod, u.Name)
	}
	if err := m.records.Write(&r); err != nil {
		return err
	}
	if len(r.Users) == 0 {
		m.loop.Wake()
	}
	return nil
}

// takeISCSI removes what a pod has of a volume.
func (m *Manager) takeISCSI(u iscsi.User) error {
	dir := iscsiDir(m.cfg.RootDir, u.Pod, u.Name)
	if err := m.unmountBelow(dir); err != nil {
		return err
	}
	_ = os.Remove(dir) // if somebody has put something there, it goes with the pod's folder
	if err := os.Remove(iscsiLink(m.cfg.RootDir, u.Pod, u.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unmountBelow removes all mounts at or below a path.
func (m *Manager) unmountBelow(path string) error {
	points, err := m.cfg.Mounter.Below(path)
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := m.cfg.Mounter.Unmount(point); err != nil {
			return err
		}
	}
	if points, err = m.cfg.Mounter.Below(path); err == nil && len(points) > 0 {
		err = fmt.Errorf("%d mounts remain below %s", len(points), path)
	}
	return err
}

// Run gives back the iSCSI disks that no pod has any more, until ctx ends.
func (m *Manager) Run(ctx context.Context) error { return m.loop.Run(ctx, m.sweep) }

// sweep looks at all iSCSI disks of the node, and returns when to look again.
func (m *Manager) sweep(ctx context.Context) time.Duration {
	next := sweepEvery
	all, err := m.records.All()
	if err != nil {
		slog.Warn("look for iSCSI disks that no pod has", "err", err)
	}
	for i := range all {
		d := &all[i].Disk
		name := m.records.Mount(d)
		if len(all[i].Users) > 0 || ctx.Err() != nil {
			continue
		}
		if m.pauses.Early(name) == nil {
			err := m.giveBack(ctx, d)
			m.pauses.Tried(name, err)
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				slog.Warn("give back an iSCSI disk that no pod has", "target", d.IQN, "lun", d.LUN, "err", err)
			}
		}
		next = min(next, m.pauses.Left(name))
	}
	return next
}

// giveBack takes a disk from the node unless a pod has it, and logs out where no other disk of the target is in use.
func (m *Manager) giveBack(ctx context.Context, d *iscsi.Disk) error {
	end, err := m.targets.Take(ctx, d.IQN)
	if err != nil {
		return err
	}
	defer end()
	all, err := m.records.All()
	if err != nil {
		return err // of what cannot be read nobody knows what it uses
	}
	r, err := m.records.Read(d)
	if err != nil || len(r.Users) > 0 { // somebody came meanwhile
		return err
	}
	if err := m.unmountBelow(m.records.Mount(d)); err != nil {
		return fmt.Errorf("UnmountDevice failed for %s: %w", m.records.Mount(d), err)
	}
	for i := range all {
		if o := &all[i]; o.Key() != r.Key() && o.Inherit(r) { // whoever is last logs out
			if err := m.records.Write(o); err != nil {
				return err
			}
		}
	}
	if err := m.cfg.ISCSI.Disconnect(ctx, &r.Disk, r.Leaves(all)); err != nil {
		return err
	}
	if err := m.records.Remove(d); err != nil {
		return err
	}
	if m.cfg.Attachments != nil {
		m.cfg.Attachments.Changed() // another node may wait for it
	}
	return nil
}
