package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// Admit reports why the node refuses a pod that nothing was made of yet: the host ports that it asks for belong to one
// of the others that are bound to the node. The scheduler binds no such pod; who names the node in the specification may.
// Of two that are both new, the older one has them.
func Admit(p *corev1.Pod, others []*corev1.Pod) *Failure {
	wanted := hostPorts(p)
	if len(wanted) == 0 {
		return nil
	}
	for _, other := range others {
		if other.UID == p.UID || Finished(other) || other.Status.StartTime == nil && !before(other, p) {
			continue
		}
		for _, taken := range hostPorts(other) {
			for _, port := range wanted {
				if conflict(port, taken) {
					return &Failure{Reason: "NodePorts", Rejected: true,
						Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
				}
			}
		}
	}
	return nil
}

// before orders pods by age.
func before(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// hostPorts are the node's ports that run with the pod: those of its containers and sidecars.
func hostPorts(p *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, port)
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if Sidecar(&p.Spec.InitContainers[i]) {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

// conflict reports whether two containers cannot both have their host ports; no address, and 0.0.0.0, are all addresses.
func conflict(a, b corev1.ContainerPort) bool {
	protocol := func(p corev1.ContainerPort) corev1.Protocol {
		if p.Protocol == "" {
			return corev1.ProtocolTCP
		}
		return p.Protocol
	}
	all := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	return a.HostPort == b.HostPort && protocol(a) == protocol(b) && (a.HostIP == b.HostIP || all(a.HostIP) || all(b.HostIP))
}
