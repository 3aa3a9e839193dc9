package usage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cgroup"
)

// Room is what is left on the node of what pods may use up, at this very moment. It costs little, and nothing of it is kept.
type Room struct {
	At                time.Time
	Memory, Processes Left
	// Pods is the memory of all pods together; nothing where they are not bounded.
	Pods Left
	// Disk is that of volumes and logs, Images that of images, Containers that of what containers write; nil where they could not be read.
	Disk, Images, Containers *Filesystem
}

// Left is what is left of something, of which there is Capacity in all.
type Left struct{ Available, Capacity uint64 }

// places are where the runtime keeps things. They are asked for once in a while: disks are not mounted elsewhere while containers run.
type places struct {
	at                 time.Time
	images, containers string
}

const placesEvery = 5 * time.Minute

// Room reads what is left. What cannot be read is told, and left out.
func (g *Gatherer) Room(ctx context.Context) (Room, error) {
	now := g.cfg.Clock.Now()
	r := Room{At: now, Memory: g.memoryLeft(), Pods: g.memoryOfPods()}
	if limit, running := processes(g.cfg.Proc); limit > 0 {
		r.Processes = Left{uint64(max(limit-running, 0)), uint64(limit)}
	}
	disk, err := StatFilesystem(g.cfg.RootDir, now)
	if err != nil {
		return r, err
	}
	r.Disk = disk
	at, err := g.whereImages(ctx, now)
	if err != nil {
		return r, err
	}
	if at.images != "" {
		if r.Images, err = StatFilesystem(at.images, now); err != nil {
			return r, err
		}
	}
	r.Containers = r.Images
	if at.containers != "" && at.containers != at.images {
		r.Containers, err = StatFilesystem(at.containers, now)
	}
	return r, err
}

// memoryLeft is what the node's group may still use, and never more than the machine has: a node that is a part of a machine shares it with others.
func (g *Gatherer) memoryLeft() Left {
	capacity, used, _ := machineMemory(g.cfg.Proc)
	if own, err := g.cfg.Groups.Read(g.cfg.Root); err == nil && own.Memory != nil {
		used = own.Memory
	}
	return g.left(capacity, used)
}

// left is what is left of a machine's memory by what a group uses of it; nil where nobody knows.
func (g *Gatherer) left(capacity uint64, used *cgroup.Memory) Left {
	left := Left{Available: capacity, Capacity: capacity}
	if free, ok := available(g.cfg.Proc); ok {
		left.Available = min(left.Available, free)
	}
	if used == nil {
		return left
	}
	if used.Limit > 0 {
		left.Capacity = min(left.Capacity, used.Limit)
	}
	left.Available = min(left.Available, left.Capacity-min(used.WorkingSet, left.Capacity))
	return left
}

// memoryOfPods is what the pods may still use until the kernel ends one of them, which is less than the machine has where some of it is reserved.
func (g *Gatherer) memoryOfPods() Left {
	pods, err := g.cfg.Groups.Read(g.cfg.Pods)
	if err != nil || pods.Memory == nil || pods.Memory.Limit == 0 {
		return Left{}
	}
	limit := pods.Memory.Limit
	return Left{Available: limit - min(pods.Memory.WorkingSet, limit), Capacity: limit}
}

// available is the kernel's estimate of what programs could still get without others being swapped out.
func available(proc string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		rest, found := strings.CutPrefix(line, "MemAvailable:")
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			kib, err := strconv.ParseUint(fields[0], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

func (g *Gatherer) whereImages(ctx context.Context, now time.Time) (places, error) {
	g.placesMu.Lock()
	defer g.placesMu.Unlock()
	if !g.places.at.IsZero() && now.Sub(g.places.at) < placesEvery {
		return g.places, nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	info, err := g.cfg.Images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		if !g.places.at.IsZero() {
			return g.places, nil
		}
		return places{}, fmt.Errorf("ask where images lie: %w", err)
	}
	var found places
	if all := info.GetImageFilesystems(); len(all) > 0 {
		found.images = all[0].GetFsId().GetMountpoint()
	}
	if all := info.GetContainerFilesystems(); len(all) > 0 {
		found.containers = all[0].GetFsId().GetMountpoint()
	}
	if found.images != "" { // a runtime that has just begun may not know yet
		found.at = now
	}
	g.places = found
	return found, nil
}
