package admit

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// ports refuses pods that want a host port that one of the others has.
func ports(p *corev1.Pod, s Site) *refusal {
	wanted := hostPorts(p)
	for _, other := range s.Others {
		for _, taken := range hostPorts(other) {
			for _, port := range wanted {
				if conflict(port, taken) {
					return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
				}
			}
		}
	}
	return nil
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
		if pod.Sidecar(&p.Spec.InitContainers[i]) {
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
