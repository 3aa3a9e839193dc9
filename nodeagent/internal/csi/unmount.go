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
	pod := filepath.Join(v.paths.root, "pods", string(uid))
	entries, err := os.ReadDir(filepath.Join(pod, "volumes", folderName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var problems []error
	for _, e := range entries {
		dir := v.paths.published(uid, e.Name())
		if err := v.early(dir); err != nil {
			problems = append(problems, unmountError(e.Name(), err))
			continue
		}
		err := v.unpublish(ctx, dir)
		v.tried(dir, err)
		if err != nil {
			problems = append(problems, unmountError(e.Name(), err))
		}
	}
	if len(entries) > 0 {
		v.wake()
	}
	if len(problems) == 0 {
		removeEmpty(filepath.Join(pod, "volumes", folderName), filepath.Join(v.paths.root, "pods"))
	}
	return errors.Join(problems...)
}

func unmountError(name string, err error) error {
	return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", name, err)
}

// unpublish has the driver take a volume from a pod, and removes the folder.
func (v *Volumes) unpublish(ctx context.Context, dir string) error {
	data, err := read(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		release, err := v.hold(ctx, string(data.unique()))
		if err != nil {
			return err
		}
		defer release()
	}
	target := filepath.Join(dir, "mount")
	if data.Called {
		driver, err := v.cfg.Drivers.Get(data.Driver)
		if err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
		}
		if _, err := driver.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: data.Handle, TargetPath: target}); err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed: %w", err)
		}
	}
	return v.removeFolder(dir, target)
}

// removeFolder removes a folder of which the driver has nothing any more; never what is in a mount.
func (v *Volumes) removeFolder(dir, inner string) error {
	points, err := v.cfg.Mounts(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is still mounted", points[0])
	}
	for _, path := range []string{inner, filepath.Join(dir, dataFile), dir} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Run takes from the node the volumes that no pod has any more, until ctx ends.
func (v *Volumes) Run(ctx context.Context) error {
	for {
		next := v.sweep(ctx)
		timer := v.cfg.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-v.poke:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// sweep looks at all volumes of the node, and returns when to look again.
func (v *Volumes) sweep(ctx context.Context) time.Duration {
	next, changed := lookEvery, false
	for _, dir := range v.paths.allStaged() {
		if ctx.Err() != nil {
			break
		}
		if v.early(dir) != nil {
			next = min(next, v.until(dir))
			continue
		}
		gone, err := v.unstage(ctx, dir)
		v.tried(dir, err)
		changed = changed || gone
		if err != nil && ctx.Err() == nil {
			slog.Warn("unmount a volume that no pod has", "dir", dir, "err", err)
			next = min(next, v.until(dir))
		}
	}
	if changed {
		v.cfg.Changed()
	}
	return next
}

func (v *Volumes) until(dir string) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.pauses[dir].until.Sub(v.cfg.Clock.Now()), time.Millisecond)
}

// unstage takes a volume from the node unless a pod has it, and reports whether it is gone.
func (v *Volumes) unstage(ctx context.Context, dir string) (bool, error) {
	data, err := read(dir)
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
	staging := filepath.Join(dir, "globalmount")
	if data, err = read(dir); err != nil {
		return false, err
	}
	if data.Called {
		driver, err := v.cfg.Drivers.Get(data.Driver)
		if err != nil {
			return false, fmt.Errorf("UnmountDevice failed for volume %q: %w", data.Name, err)
		}
		v.markStaged(data.unique(), false)
		if _, err := driver.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: data.Handle, StagingTargetPath: staging}); err != nil {
			return false, fmt.Errorf("UnmountDevice failed for volume %q: %w", data.Name, err)
		}
	}
	if err := v.removeFolder(dir, staging); err != nil {
		return false, err
	}
	removeEmpty(filepath.Dir(dir), filepath.Join(v.paths.root, "plugins", pluginName))
	return true, nil
}
