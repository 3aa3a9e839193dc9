package pressure

import "howdah.dev/nodeagent/internal/usage"

// Layout says on which disks there is what.
type Layout struct {
	// ImagesApart says that images have a disk of their own, beside that of volumes and logs.
	ImagesApart bool
	// LayersApart says that what containers write lies there too.
	LayersApart bool
}

// Look turns what is left on the machine into observations.
func Look(r usage.Room) (Observations, Layout) {
	out := Observations{}
	add := func(s Signal, available, capacity uint64) {
		if capacity > 0 {
			out[s] = Observation{Available: int64(available), Capacity: int64(capacity), At: r.At}
		}
	}
	add(MemoryAvailable, r.Memory.Available, r.Memory.Capacity)
	add(AllocatableMemory, r.Pods.Available, r.Pods.Capacity)
	add(PIDAvailable, r.Processes.Available, r.Processes.Capacity)
	if d := r.Disk; d != nil {
		add(NodeFSAvailable, d.Available, d.Capacity)
		add(NodeFSInodesFree, d.InodesFree, d.Inodes)
	}
	if d := r.Images; d != nil {
		add(ImageFSAvailable, d.Available, d.Capacity)
		add(ImageFSInodesFree, d.InodesFree, d.Inodes)
	}
	apart := func(d *usage.Filesystem) bool {
		return d != nil && r.Disk != nil && d.Device != "" && r.Disk.Device != "" && d.Device != r.Disk.Device
	}
	l := Layout{ImagesApart: apart(r.Images), LayersApart: apart(r.Containers)}
	if r.Containers == nil {
		l.LayersApart = l.ImagesApart
	}
	return out, l
}

// Reclaim is what may be removed before a pod has to end.
type Reclaim struct{ Dead, Images bool }

// Reclaims says what would free something of what the signal is about: what pods that have ended left, which is layers, logs and volumes, and images
// that nobody needs.
func (l Layout) Reclaims(s Signal) Reclaim {
	switch s {
	case NodeFSAvailable, NodeFSInodesFree:
		return Reclaim{Dead: true, Images: !l.ImagesApart}
	case ImageFSAvailable, ImageFSInodesFree:
		return Reclaim{Dead: l.LayersApart || !l.ImagesApart, Images: true}
	}
	return Reclaim{}
}
