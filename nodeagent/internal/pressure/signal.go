// Package pressure ends pods before the node runs out of something that the kernel does not share out: memory, disk, inodes, processes. What is short,
// which pod goes and what is tried before are decided by functions without effect; the Keeper looks, and does what they say. Signals, options and
// messages are those of Kubernetes (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/).
package pressure

import (
	corev1 "k8s.io/api/core/v1"
)

// Signal is something that a node can run short of.
type Signal string

// The signals. nodefs is the disk of volumes and logs, imagefs that of images.
const (
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemory is the memory of all pods together, where some of the machine's is reserved. Nobody sets its threshold: it is that of memory.available.
	AllocatableMemory Signal = "allocatableMemory.available"
	NodeFSAvailable   Signal = "nodefs.available"
	NodeFSInodesFree  Signal = "nodefs.inodesFree"
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// What is short, where no API names it as a resource.
const (
	inodes    corev1.ResourceName = "inodes"
	processes corev1.ResourceName = "pids"
)

// kind is what a signal is about.
type kind struct {
	signal    Signal
	condition corev1.NodeConditionType
	resource  corev1.ResourceName
}

// kinds are all signals, in the order in which shortages are dealt with: a machine without memory has no time for anything else.
var kinds = []kind{
	{MemoryAvailable, corev1.NodeMemoryPressure, corev1.ResourceMemory},
	{AllocatableMemory, corev1.NodeMemoryPressure, corev1.ResourceMemory},
	{NodeFSAvailable, corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	{NodeFSInodesFree, corev1.NodeDiskPressure, inodes},
	{ImageFSAvailable, corev1.NodeDiskPressure, corev1.ResourceEphemeralStorage},
	{ImageFSInodesFree, corev1.NodeDiskPressure, inodes},
	{PIDAvailable, corev1.NodePIDPressure, processes},
}

// order is the signal's place among them, -1 where there is no such signal.
func (s Signal) order() int {
	for i := range kinds {
		if kinds[i].signal == s {
			return i
		}
	}
	return -1
}

func (s Signal) kind() kind { return kinds[s.order()] }

// quantity writes an amount of what the signal counts as Kubernetes does.
func (s Signal) quantity(n int64) string { return quantity(s.kind().resource, n) }
