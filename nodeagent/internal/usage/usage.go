// Package usage reads what the node, its pods and their containers use: time and memory from the control groups, networks from the
// kernel, files from the runtime. One reading serves all who ask within a short time.
package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/cgroup"
)

// Reading is what everything used at one moment.
type Reading struct {
	At   time.Time
	Node Node
	Pods []Pod // by namespace and name
	// Err says why there is nothing, or not all, of the pods.
	Err error
}

// Measured is a control group's usage. Rate is in billionths of a core, over the time since the reading before; nil where there is none.
type Measured struct {
	cgroup.Usage
	At   time.Time
	Rate *uint64
}

// Node is the machine, or that part of it that the node is.
type Node struct {
	Measured
	Booted   time.Time
	Capacity uint64 // of memory, in bytes
	// MemoryLeft is what of it is left, as it counts for pods' ends; nil where it was not measured.
	MemoryLeft *uint64
	AllPods    Measured
	Networks   []Interface
	Disk       *Filesystem // that pods' volumes are on
	Images     *Filesystem // that images and containers are on
	MaxPIDs    int64
	Processes  int64
}

// Pod is one whose sandbox runs.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Started         time.Time // of the pod, as the API knows it; else of its sandbox
	Sandbox         string
	Group           string // the control group's path
	Measured
	Networks   []Interface // none for pods on the node's own
	Containers []Container // that run, by name
	Volumes    []Volume    // that can be measured, as far as they have been
}

// Volume is what a volume of a pod takes up, and what there is where it lies. What is not known is nil.
type Volume struct {
	Name  string
	Claim string // that it stands for, "" without one
	At    time.Time
	// Scratch says that it lies on the node's own disk and goes with the pod.
	Scratch                                                   bool
	Capacity, Available, Used, Inodes, InodesFree, InodesUsed *uint64
}

// Container is a run of a container.
type Container struct {
	Name, ID, Image, Group string
	Started                time.Time
	Measured
	Rootfs, Logs *Files
}

// Opened is what the processes of a group have opened.
type Opened struct {
	Descriptors, Sockets uint64 // which count among them
	// MaxFiles is how many files the first of the processes may open; -1 is without a limit, nil is not known.
	MaxFiles *int64
}

// Files is what files take up.
type Files struct {
	At            time.Time
	Bytes, Inodes uint64
}

// Filesystem is a disk with what is free on it, and what of it is Used for the purpose.
type Filesystem struct {
	At                                      time.Time
	Device                                  string
	Capacity, Available, Inodes, InodesFree uint64
	Used, InodesUsed                        uint64
	ContainersUsed, ContainersInodes        uint64
}

// Interface is a network interface's counters since it was made.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}
