package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
)

// lookEvery is how often it is looked for volumes that nobody has any more, though nothing was heard.
const lookEvery = 30 * time.Second

// Unmount takes a pod's volumes from it. What cannot be undone stays written down, and is tried again with the next call, after growing pauses.
func (v *Volumes) Unmount(ctx context.Context, uid types.UID) error {
	all, err := v.paths.of(uid)
	if err != nil {
		return err
	}
	var problems []error
	for _, at := range all {
		err := v.pauses.Early(at.record)
		if err == nil {
			err = v.unpublish(ctx, at)
			v.pauses.Tried(at.record, err)
		}
		if err != nil {
			problems = append(problems, at.teardownError(err))
		}
	}
	if len(all) > 0 {
		v.loop.Wake()
	}
	if len(problems) == 0 {
		pod := filepath.Join(v.paths.root, "pods", string(uid))
		for _, dir := range []string{filepath.Join("volumes", folderName), filepath.Join(devicesName, folderName), filepath.Join(devicesName, recordName)} {
			removeEmpty(filepath.Join(pod, dir), filepath.Join(v.paths.root, "pods"))
		}
	}
	return errors.Join(problems...)
}

func (p place) teardownError(err error) error {
	step := "UnmountVolume.TearDown failed"
	if p.link != "" {
		step = "UnmapVolume.UnmapPodDevice failed"
	}
	return fmt.Errorf("%s for volume %q : %w", step, filepath.Base(p.record), err)
}

// unpublish has the driver take a volume from a pod, and removes the folder.
func (v *Volumes) unpublish(ctx context.Context, at place) (problem error) {
	began := v.cfg.Clock.Now()
	data, err := read(at.record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() { v.operated(data.Driver, at, "volume_unmount", "unmap_volume", began, problem) }()
	if err == nil {
		release, err := v.hold(ctx, string(data.unique()))
		if err != nil {
			return err
		}
		defer release()
	}
	if data.Called {
		driver, err := v.cfg.Drivers.Get(data.Driver)
		if err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
		}
		if _, err := driver.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: data.Handle, TargetPath: at.target}); err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed: %w", err)
		}
	}
	if err := v.remove(at); err != nil || at.link == "" {
		return err
	}
	_ = os.Remove(filepath.Dir(at.target)) // unless other pods have it
	return nil
}

// operated tells of what was done with a volume, by one name for file systems and another for block devices.
func (v *Volumes) operated(driver string, at place, filesystem, device string, began time.Time, err error) {
	if v.cfg.Operated == nil || driver == "" {
		return
	}
	operation := filesystem
	if filepath.Dir(at.target) != at.record {
		operation = device
	}
	v.cfg.Operated(driver, operation, v.cfg.Clock.Since(began), err)
}

// remove removes the place of a volume of which the driver has nothing any more; never what is in a mount. What is known of it goes last.
func (v *Volumes) remove(at place) error {
	for _, path := range []string{at.target, at.record} {
		points, err := v.cfg.Mounts(path)
		if err != nil {
			return err
		}
		if len(points) > 0 {
			return fmt.Errorf("%s is still mounted", points[0])
		}
	}
	for _, path := range []string{at.link, at.target, filepath.Join(at.record, dataFile), at.record} {
		if path == "" {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Run takes from the node the volumes that no pod has any more, until ctx ends.
func (v *Volumes) Run(ctx context.Context) error { return v.loop.Run(ctx, v.sweep) }

// sweep looks at all volumes of the node, and returns when to look again.
func (v *Volumes) sweep(ctx context.Context) time.Duration {
	next, changed := lookEvery, false
	for _, at := range v.paths.allStaged() {
		dir := at.record
		if ctx.Err() != nil {
			break
		}
		if v.pauses.Early(dir) != nil {
			next = min(next, v.pauses.Left(dir))
			continue
		}
		gone, err := v.unstage(ctx, at)
		v.pauses.Tried(dir, err)
		changed = changed || gone
		if err != nil && ctx.Err() == nil {
			slog.Warn("unmount a volume that no pod has", "dir", dir, "err", err)
			next = min(next, v.pauses.Left(dir))
		}
	}
	if changed {
		v.cfg.Waiter.Changed()
	}
	return next
}

// unstage takes a volume from the node unless a pod has it, and reports whether it is gone.
func (v *Volumes) unstage(ctx context.Context, at place) (_ bool, problem error) {
	data, err := read(at.record)
	if err != nil {
		return false, err
	}
	if len(v.paths.users(data.unique())) > 0 {
		return false, nil
	}
	release, err := v.hold(ctx, string(data.unique()))
	if err != nil {
		return false, err
	}
	defer release()
	if len(v.paths.users(data.unique())) > 0 { // somebody came meanwhile
		return false, nil
	}
	began := v.cfg.Clock.Now()
	defer func() { v.operated(data.Driver, at, "unmount_device", "unmap_device", began, problem) }()
	if data, err = read(at.record); err != nil {
		return false, err
	}
	if data.Called {
		driver, err := v.cfg.Drivers.Get(data.Driver)
		if err != nil {
			return false, fmt.Errorf("UnmountDevice failed for volume %q: %w", data.Name, err)
		}
		v.markStaged(data.unique(), false)
		if _, err := driver.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: data.Handle, StagingTargetPath: at.target}); err != nil {
			return false, fmt.Errorf("UnmountDevice failed for volume %q: %w", data.Name, err)
		}
	}
	if err := v.remove(at); err != nil {
		return false, err
	}
	removeEmpty(filepath.Dir(at.record), filepath.Join(v.paths.root, "plugins", pluginName))
	return true, nil
}
