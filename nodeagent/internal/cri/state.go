package cri

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is a container's state in the runtime.
type State int

// Created is made and not started; Unknown is lost to the runtime.
const (
	Created State = iota
	Running
	Exited
	Unknown
)

// Sandbox is a pod's sandbox: its network and the parent of its containers.
type Sandbox struct {
	ID      string
	Handler string // the runtime's way to run it, "" for its default
	Attempt uint32
	Ready   bool
	Created time.Time
	IPs     []string // empty with the node's own network
}

// Container is one run of a container. Attempt counts the runs of its name
// from 0, over all sandboxes of the pod. Life counts how often all of the pod's
// containers had started over when it was made.
type Container struct {
	ID, Name, SandboxID        string
	Attempt, Life              int32
	State                      State
	Created, Started, Finished time.Time
	ExitCode                   int32
	Reason, Message            string
	Image, ImageRef            string
	Hash                       string
	LogPath                    string
	Annotations                map[string]string
	// User is who its first process runs as, nil where the runtime does not tell.
	User *corev1.ContainerUser
	// StopSignal is what it is asked to end with, "" where the runtime does not tell.
	StopSignal corev1.Signal
}

// Pod is all that the runtime holds of one pod, newest first.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Sandboxes       []Sandbox
	Containers      []Container
}

// Sandbox returns the newest sandbox, nil where there is none.
func (p *Pod) Sandbox() *Sandbox {
	if len(p.Sandboxes) == 0 {
		return nil
	}
	return &p.Sandboxes[0]
}

// ByID returns the run with the ID, nil where there is none.
func (p *Pod) ByID(id string) *Container {
	for i := range p.Containers {
		if p.Containers[i].ID == id {
			return &p.Containers[i]
		}
	}
	return nil
}

// Runs returns the runs of a container, newest first.
func (p *Pod) Runs(name string) []*Container {
	var runs []*Container
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			runs = append(runs, &p.Containers[i])
		}
	}
	return runs
}

// Latest returns the newest run of a container, nil where there is none.
func (p *Pod) Latest(name string) *Container {
	if runs := p.Runs(name); len(runs) > 0 {
		return runs[0]
	}
	return nil
}

// AnyRunning reports whether a container runs.
func (p *Pod) AnyRunning() bool {
	for i := range p.Containers {
		if p.Containers[i].State == Running {
			return true
		}
	}
	return false
}
