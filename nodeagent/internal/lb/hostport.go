package lb

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// hostPortTable computes the frontends of a pod's hostPorts on this node. Empty while the pod has no address,
// after it has ended, and for pods in the host's network, whose ports are the host's already.
func hostPortTable(pod *corev1.Pod) (Table, []string) {
	out := Table{}
	var problems []string
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return out, nil
	}
	for _, port := range hostPorts(pod) {
		protocol := protocolOf(port.Protocol)
		if !balanceable(protocol) {
			problems = append(problems, fmt.Sprintf("pod %s/%s hostPort %d: protocol %s is not balanced", pod.Namespace, pod.Name, port.HostPort, protocol))
			continue
		}
		for _, podIP := range pod.Status.PodIPs {
			address, err := netip.ParseAddr(podIP.IP)
			if err != nil {
				continue
			}
			address = address.Unmap()
			host, scope := unspecified(familyOf(address)), ThisNode
			if hostIP, err := netip.ParseAddr(port.HostIP); err == nil && !hostIP.IsUnspecified() {
				host, scope = hostIP.Unmap(), 0
			}
			if familyOf(host) != familyOf(address) {
				continue
			}
			entry := Entry{
				Service:  fmt.Sprintf("%s/%s:hostPort/%d", pod.Namespace, pod.Name, port.HostPort),
				Backends: []Backend{{Address: netip.AddrPortFrom(address, uint16(port.ContainerPort)), Local: true}},
			}
			for _, asker := range []Scope{Socket, Outside} {
				out[Frontend{Address: host, Port: uint16(port.HostPort), Protocol: protocol, Scope: asker | scope}] = entry
			}
		}
	}
	return out, problems
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	add := func(c corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out = append(out, p)
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c)
	}
	return out
}
