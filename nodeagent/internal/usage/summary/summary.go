// Package summary tells a reading of what the node uses as /stats/summary does: stats v1alpha1.
package summary

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/usage"
)

// Of returns the summary of a reading. brief leaves out all but time and memory.
func Of(node string, r *usage.Reading, brief bool) *stats.Summary {
	n := &r.Node
	out := &stats.Summary{
		Node: stats.NodeStats{
			NodeName: node, StartTime: metav1.NewTime(n.Booted), CPU: cpu(n.Measured), Memory: memory(n.Measured, n.Capacity), Swap: swap(n.Measured),
			SystemContainers: []stats.ContainerStats{{
				Name: stats.SystemContainerPods, StartTime: metav1.NewTime(n.Booted), CPU: cpu(n.AllPods), Memory: memory(n.AllPods, n.Capacity),
			}},
		},
		Pods: []stats.PodStats{},
	}
	if m := out.Node.Memory; m != nil && n.MemoryLeft != nil { // whoever reads this reckons with when pods are to end
		left := *n.MemoryLeft
		m.AvailableBytes = &left
	}
	if !brief {
		out.Node.Network, out.Node.Fs, out.Node.IO = network(n.Networks, r.At), disk(n.Disk), waits(n.Measured)
		out.Node.SystemContainers[0].IO = waits(n.AllPods)
		out.Node.Rlimit = &stats.RlimitStats{Time: metav1.NewTime(r.At), MaxPID: &n.MaxPIDs, NumOfRunningProcesses: &n.Processes}
		if n.Images != nil {
			containers := *n.Images
			containers.Used, containers.InodesUsed = n.Images.ContainersUsed, n.Images.ContainersInodes
			out.Node.Runtime = &stats.RuntimeStats{ImageFs: disk(n.Images), ContainerFs: disk(&containers)}
		}
	}
	for i := range r.Pods {
		out.Pods = append(out.Pods, pod(&r.Pods[i], n, r.At, brief))
	}
	return out
}

func pod(p *usage.Pod, n *usage.Node, at time.Time, brief bool) stats.PodStats {
	out := stats.PodStats{
		PodRef:    stats.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		StartTime: metav1.NewTime(p.Started), Containers: []stats.ContainerStats{},
		CPU: cpu(p.Measured), Memory: memory(p.Measured, 0), Swap: swap(p.Measured),
	}
	var used, inodes uint64
	for i := range p.Containers {
		c := &p.Containers[i]
		one := stats.ContainerStats{Name: c.Name, StartTime: metav1.NewTime(c.Started), CPU: cpu(c.Measured), Memory: memory(c.Measured, 0), Swap: swap(c.Measured)}
		if !brief {
			one.Rootfs, one.Logs, one.IO = files(c.Rootfs, n.Images), files(c.Logs, n.Disk), waits(c.Measured)
			for _, f := range []*usage.Files{c.Rootfs, c.Logs} {
				if f != nil {
					used, inodes = used+f.Bytes, inodes+f.Inodes
				}
			}
		}
		out.Containers = append(out.Containers, one)
	}
	if brief {
		return out
	}
	for i := range p.Volumes {
		v := &p.Volumes[i]
		out.VolumeStats = append(out.VolumeStats, volume(p.Namespace, v))
		if v.Scratch && v.Used != nil && v.InodesUsed != nil {
			used, inodes = used+*v.Used, inodes+*v.InodesUsed
		}
	}
	out.Network, out.IO = network(p.Networks, at), waits(p.Measured)
	out.EphemeralStorage = files(&usage.Files{At: at, Bytes: used, Inodes: inodes}, n.Disk)
	if p.Tasks != nil {
		out.ProcessStats = &stats.ProcessStats{ProcessCount: &p.Tasks.Processes}
	}
	return out
}

func volume(namespace string, v *usage.Volume) stats.VolumeStats {
	out := stats.VolumeStats{Name: v.Name, FsStats: stats.FsStats{
		Time: metav1.NewTime(v.At), AvailableBytes: v.Available, CapacityBytes: v.Capacity, UsedBytes: v.Used,
		InodesFree: v.InodesFree, Inodes: v.Inodes, InodesUsed: v.InodesUsed,
	}}
	if v.Claim != "" {
		out.PVCRef = &stats.PVCReference{Name: v.Claim, Namespace: namespace}
	}
	return out
}

func cpu(m usage.Measured) *stats.CPUStats {
	if m.CPU == nil {
		return nil
	}
	total := uint64(m.CPU.Total)
	return &stats.CPUStats{Time: metav1.NewTime(m.At), UsageNanoCores: m.Rate, UsageCoreNanoSeconds: &total, PSI: pressure(m.Pressures.CPU)}
}

// memory tells what is available only of groups with a limit: their own, or else the one given.
func memory(m usage.Measured, limit uint64) *stats.MemoryStats {
	if m.Memory == nil {
		return nil
	}
	used := *m.Memory // the reading is shared
	out := &stats.MemoryStats{
		Time: metav1.NewTime(m.At), UsageBytes: &used.Usage, WorkingSetBytes: &used.WorkingSet, RSSBytes: &used.RSS,
		PageFaults: &used.Faults, MajorPageFaults: &used.MajorFaults, PSI: pressure(m.Pressures.Memory),
	}
	if used.Limit > 0 && (limit == 0 || used.Limit < limit) {
		limit = used.Limit
	}
	if limit > 0 {
		available := limit - min(used.WorkingSet, limit)
		out.AvailableBytes = &available
	}
	return out
}

// waits tells how disks kept a group waiting, nil where that is not known: there is nothing else in it.
func waits(m usage.Measured) *stats.IOStats {
	if m.Pressures.IO == nil {
		return nil
	}
	return &stats.IOStats{Time: metav1.NewTime(m.At), PSI: pressure(m.Pressures.IO)}
}

func pressure(p *cgroup.Pressure) *stats.PSIStats {
	if p == nil {
		return nil
	}
	data := func(s cgroup.Stall) stats.PSIData {
		return stats.PSIData{Total: uint64(s.Total), Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
	}
	return &stats.PSIStats{Full: data(p.Full), Some: data(p.Some)}
}

func swap(m usage.Measured) *stats.SwapStats {
	if m.Swap == nil {
		return nil
	}
	used := m.Swap.Usage
	out := &stats.SwapStats{Time: metav1.NewTime(m.At), SwapUsageBytes: &used}
	if m.Swap.Limit > 0 {
		available := m.Swap.Limit - min(used, m.Swap.Limit)
		out.SwapAvailableBytes = &available
	}
	return out
}

func network(all []usage.Interface, at time.Time) *stats.NetworkStats {
	if len(all) == 0 {
		return nil
	}
	out := &stats.NetworkStats{Time: metav1.NewTime(at)}
	for i := range all {
		n := all[i]
		out.Interfaces = append(out.Interfaces, stats.InterfaceStats{Name: n.Name, RxBytes: &n.RxBytes, RxErrors: &n.RxErrors, TxBytes: &n.TxBytes, TxErrors: &n.TxErrors})
	}
	out.InterfaceStats = out.Interfaces[0]
	return out
}

func disk(f *usage.Filesystem) *stats.FsStats {
	if f == nil {
		return nil
	}
	d := *f
	return &stats.FsStats{
		Time: metav1.NewTime(d.At), AvailableBytes: &d.Available, CapacityBytes: &d.Capacity, UsedBytes: &d.Used,
		InodesFree: &d.InodesFree, Inodes: &d.Inodes, InodesUsed: &d.InodesUsed,
	}
}

// files tells what files take up of a disk.
func files(f *usage.Files, on *usage.Filesystem) *stats.FsStats {
	if f == nil {
		return nil
	}
	out := disk(on)
	if out == nil {
		out = &stats.FsStats{}
	}
	bytes, inodes := f.Bytes, f.Inodes
	out.Time, out.UsedBytes, out.InodesUsed = metav1.NewTime(f.At), &bytes, &inodes
	return out
}
