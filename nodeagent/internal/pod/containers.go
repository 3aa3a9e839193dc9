package pod

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// Find returns the specification of a pod's container, of whatever kind, nil where there is none of the name.
func Find(p *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	if e := Ephemeral(p, name); e != nil {
		return plainContainer(e)
	}
	return nil
}

// Ephemeral returns a pod's ephemeral container, nil where there is none of the name.
func Ephemeral(p *corev1.Pod, name string) *corev1.EphemeralContainer {
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			return &p.Spec.EphemeralContainers[i]
		}
	}
	return nil
}

// plainContainer is an ephemeral container without its target: both have the same fields.
func plainContainer(e *corev1.EphemeralContainer) *corev1.Container {
	return (*corev1.Container)(&e.EphemeralContainerCommon)
}

// ToldStatus returns what the API tells of a container, of whatever kind, or nil.
func ToldStatus(p *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// ephemeral plans the ephemeral containers: each runs once in the pod's life, whatever becomes of it.
func (p *planner) ephemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		c := plainContainer(&p.pod.Spec.EphemeralContainers[i])
		told := ToldStatus(p.pod, c.Name)
		switch run := p.observed.Latest(c.Name); {
		case run == nil && (told == nil || told.ContainerID == ""):
			p.start(c, nil, false)
		case run != nil && run.SandboxID == p.sandbox.ID && run.State == cri.Created:
			p.start(c, run, false)
		case run != nil && run.SandboxID == p.sandbox.ID && run.State == cri.Running:
			p.resize(c, run) // of its own it has none, but the limits of its pod
		}
	}
}

// ephemeral describes an ephemeral container, which is never ready and never runs again.
func (w *writer) ephemeral(c *corev1.Container) corev1.ContainerStatus {
	s := w.container(c, false, true)
	if told := ToldStatus(w.pod, c.Name); s.State.Waiting != nil && s.LastTerminationState.Terminated != nil && told != nil && told.ContainerID != "" {
		s.State, s.LastTerminationState = s.LastTerminationState, corev1.ContainerState{} // its run is lost
	}
	s.Ready, s.Started, s.Resources = false, nil, nil // it has no resources of its own
	return s
}

// Images are those that the pod names, for its containers of every kind and for its volumes.
func Images(pod *corev1.Pod) []string {
	var out []string
	for _, c := range containers(pod) {
		out = append(out, c.Image)
	}
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if volume := pod.Spec.Volumes[i].Image; volume != nil {
			out = append(out, volume.Reference)
		}
	}
	return out
}
