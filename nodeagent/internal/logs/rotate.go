package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

const callTimeout = 30 * time.Second

// Bounds of a container's logs, as the kubelet's settings that begin with containerLog.
type Bounds struct {
	// Size, in bytes, is how long a file may become; negative is as long as it likes.
	Size int64
	// Files are how many of them are kept, with the one that is written.
	Files int
	// Workers is how many containers' logs are seen to at a time, Every how often all of them are.
	Workers int
	Every   time.Duration
}

// DefaultBounds are a kubelet's.
var DefaultBounds = Bounds{Size: 10 << 20, Files: 5, Workers: 1, Every: 10 * time.Second}

// Validate says what is wrong with them.
func (b Bounds) Validate() error {
	switch {
	case b.Size == 0:
		return errors.New("logs: a file cannot be of no size")
	case b.Files < 2:
		return fmt.Errorf("logs: of a container there are more than one file, not %d", b.Files)
	case b.Workers < 1:
		return fmt.Errorf("logs: somebody has to see to them, not %d", b.Workers)
	case b.Every < 3*time.Second:
		return fmt.Errorf("logs: they are seen to every 3s at most, not every %s", b.Every)
	}
	return nil
}

// Rotator keeps logs from filling the disk.
type Rotator struct {
	runtime runtimeapi.RuntimeServiceClient
	bounds  Bounds
	clock   clock.Clock
}

// NewRotator returns a Rotator.
func NewRotator(runtime runtimeapi.RuntimeServiceClient, bounds Bounds, clk clock.Clock) *Rotator {
	return &Rotator{runtime, bounds, clk}
}

// Run rotates until ctx ends.
func (r *Rotator) Run(ctx context.Context) error {
	if r.bounds.Size < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		timer := r.clock.NewTimer(r.bounds.Every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
		if err := r.rotateAll(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("rotate logs", "err", err)
		}
	}
}

func (r *Rotator) rotateAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	running, err := r.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return err
	}
	problems := make([]error, len(running.GetContainers()))
	var workers errgroup.Group
	workers.SetLimit(r.bounds.Workers)
	for i, c := range running.GetContainers() {
		workers.Go(func() error {
			problems[i] = r.look(ctx, c.GetId())
			return nil
		})
	}
	_ = workers.Wait()
	return errors.Join(problems...)
}

// look puts a container's log aside where it has become too long.
func (r *Rotator) look(ctx context.Context, id string) error {
	status, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil //nolint:nilerr // it has just ended
	}
	path := status.GetStatus().GetLogPath()
	info, err := os.Stat(path)
	if err != nil || info.Size() < r.bounds.Size {
		return nil //nolint:nilerr // it has just been removed, or is short
	}
	return r.rotate(ctx, id, path)
}

// rotate puts a log aside and lets the runtime begin a new one.
func (r *Rotator) rotate(ctx context.Context, id, path string) error {
	aside := path + "." + r.clock.Now().UTC().Format("20060102-150405.000")
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	if _, err := r.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id}); err != nil {
		// The runtime still writes to the old file: give it its name back.
		return errors.Join(fmt.Errorf("reopen log of %s: %w", id, err), os.Rename(aside, path))
	}
	return r.prune(path)
}

// prune deletes the oldest files beyond the limit.
func (r *Rotator) prune(path string) error {
	aside, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	sort.Strings(aside)
	var problems []error
	for _, old := range aside[:max(len(aside)-(r.bounds.Files-1), 0)] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Remove deletes a run's log with what was put aside of it. Readers that have it open read on.
func Remove(path string) error {
	if path == "" {
		return nil
	}
	aside, err := filepath.Glob(path + ".*")
	problems := []error{err}
	for _, file := range append(aside, path) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
