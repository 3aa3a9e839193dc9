// Package backend says which pods stand behind a service, where, and on
// which ports: what Endpoints and EndpointSlices have in common.
package backend

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/controllers/internal/pod"
)

// Port is a service's port as one pod answers it.
type Port struct {
	Name        string
	Number      int32
	Protocol    corev1.Protocol
	AppProtocol *string
}

// Managed says whether a service's endpoints are the controllers' to write.
func Managed(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

// Headless says whether the service has no address of its own.
func Headless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// Selects says whether the service's selector selects the labels.
func Selects(s *corev1.Service, set map[string]string) bool {
	return len(s.Spec.Selector) > 0 && labels.SelectorFromValidatedSet(s.Spec.Selector).Matches(labels.Set(set))
}

// Ports resolves the service's ports on a pod. A named target port that no
// container of the pod has is left out.
func Ports(s *corev1.Service, p *corev1.Pod) []Port {
	var ports []Port
	for i := range s.Spec.Ports {
		sp := &s.Spec.Ports[i]
		number, ok := target(sp, p)
		if !ok {
			continue
		}
		protocol := sp.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		ports = append(ports, Port{sp.Name, number, protocol, sp.AppProtocol})
	}
	return ports
}

func target(sp *corev1.ServicePort, p *corev1.Pod) (int32, bool) {
	if sp.TargetPort.Type == intstr.Int {
		if sp.TargetPort.IntVal == 0 {
			return sp.Port, true
		}
		return sp.TargetPort.IntVal, true
	}
	find := func(containers []corev1.Container, restartable bool) (int32, bool) {
		for _, c := range containers {
			if restartable && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
				continue
			}
			for _, cp := range c.Ports {
				if cp.Name == sp.TargetPort.StrVal && (cp.Protocol == sp.Protocol || cp.Protocol == "" && sp.Protocol == corev1.ProtocolTCP || sp.Protocol == "") {
					return cp.ContainerPort, true
				}
			}
		}
		return 0, false
	}
	if n, ok := find(p.Spec.Containers, false); ok {
		return n, true
	}
	return find(p.Spec.InitContainers, true) // sidecars
}

// Families returns the IP families that the service is served in, the
// primary one first. Services without any yet (before defaulting, or headless
// ones of old) are served in IPv4.
func Families(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) > 0 {
		return s.Spec.IPFamilies
	}
	if a, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && a.Is6() {
		return []corev1.IPFamily{corev1.IPv6Protocol}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}

// Address returns the pod's address of a family, "" where it has none.
func Address(p *corev1.Pod, family corev1.IPFamily) string {
	ips := p.Status.PodIPs
	if len(ips) == 0 && p.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	for _, ip := range ips {
		a, err := netip.ParseAddr(ip.IP)
		if err == nil && a.Is6() == (family == corev1.IPv6Protocol) {
			return ip.IP
		}
	}
	return ""
}

// Reachable says whether the pod can be behind a service at all: it has an
// address and has not ended for good.
func Reachable(p *corev1.Pod) bool {
	return !pod.Terminal(p) && (p.Status.PodIP != "" || len(p.Status.PodIPs) > 0)
}

// Hostname is the name that the pod has below the service in DNS, or "".
func Hostname(s *corev1.Service, p *corev1.Pod) string {
	if p.Spec.Hostname != "" && p.Spec.Subdomain == s.Name && p.Namespace == s.Namespace {
		return p.Spec.Hostname
	}
	return ""
}

// Reference points at the pod.
func Reference(p *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// Changed says whether a change of a pod can change any service's endpoints.
func Changed(old, new *corev1.Pod) bool {
	return old.Status.Phase != new.Status.Phase ||
		pod.Ready(old) != pod.Ready(new) ||
		(old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil) ||
		old.Spec.NodeName != new.Spec.NodeName ||
		old.Spec.Hostname != new.Spec.Hostname || old.Spec.Subdomain != new.Spec.Subdomain ||
		old.Status.PodIP != new.Status.PodIP || !slices.Equal(old.Status.PodIPs, new.Status.PodIPs) ||
		!labels.Equals(old.Labels, new.Labels)
}
