package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// prepareUpdate keeps what the server chose when the client does not repeat
// it, and lets go of it when a change of type makes it useless.
func prepareUpdate(s, old *corev1.Service) {
	s.Status = old.Status
	keepChosen(s, old)
	if s.Spec.ClusterIP == "" && old.Spec.ClusterIP != "" && slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		s.Spec.ClusterIPs = nil
	}
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP == old.Spec.ClusterIP {
		s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
	}
	if needsClusterIP(s) {
		pair(&s.Spec)
	}
	dropOutdated(s, old)
	dropTrafficPolicy(s)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// pair fills clusterIPs in: clusterIP and the first of them are two names of one value. It is the server that does so, and not a
// default, which would belong to whoever writes the Service.
func pair(spec *corev1.ServiceSpec) {
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

func keepChosen(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if needsClusterIP(s) && needsClusterIP(old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
		if spec.IPFamilyPolicy == nil {
			spec.IPFamilyPolicy = was.IPFamilyPolicy
		}
		// Who changes only one of the two names means both.
		if spec.ClusterIP != was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) && len(spec.ClusterIPs) > 0 {
			spec.ClusterIPs = append([]string{spec.ClusterIP}, spec.ClusterIPs[1:]...)
		}
		// Other addresses say which families they are of; where there are none, the cluster's first family is.
		if len(spec.IPFamilies) == 0 && !headless(s) && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.IPFamilies = slices.Clone(was.IPFamilies)
		}
	}
	if needsNodePorts(s) && needsNodePorts(old) {
		keepNodePorts(spec.Ports, was.Ports)
	}
	if needsHealthCheckPort(s) && needsHealthCheckPort(old) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

// releaseSecond lets go of the second family of a Service that becomes single
// stack, when the client leaves families and addresses as they were.
func releaseSecond(spec, was *corev1.ServiceSpec) {
	if spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || equal(spec.IPFamilyPolicy, was.IPFamilyPolicy) {
		return
	}
	if len(spec.ClusterIPs) == 2 && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
		spec.ClusterIPs = spec.ClusterIPs[:1]
	}
	if len(spec.IPFamilies) == 2 && slices.Equal(spec.IPFamilies, was.IPFamilies) {
		spec.IPFamilies = spec.IPFamilies[:1]
	}
}

// keepNodePorts gives a port without a node port the one that the port of its name
// had, unless another port has it now.
func keepNodePorts(now, was []corev1.ServicePort) {
	had, taken := map[string]int32{}, map[use]bool{}
	for _, p := range was {
		had[p.Name] = p.NodePort
	}
	for _, p := range now {
		if p.NodePort != 0 {
			taken[use{p.Protocol, p.NodePort}] = true
		}
	}
	for i := range now {
		p := &now[i]
		if n := had[p.Name]; p.NodePort == 0 && n != 0 && !taken[use{p.Protocol, n}] {
			p.NodePort = n
		}
	}
}

// dropOutdated clears what only the old type needed, when the client merely
// repeats it; what a client sets anew is left to validation.
func dropOutdated(s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(s) {
		if spec.ClusterIP == was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) {
			spec.IPFamilies = nil
		}
		if equal(spec.IPFamilyPolicy, was.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if mayHaveNodePorts(old) && !mayHaveNodePorts(s) && sameNodePorts(spec.Ports, was.Ports) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheckPort(old) && !needsHealthCheckPort(s) && spec.HealthCheckNodePort == was.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if old.Spec.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		if equal(spec.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if equal(spec.LoadBalancerClass, was.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if reachable(old) && !reachable(s) && spec.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if needsClusterIP(old) && !needsClusterIP(s) && equal(spec.InternalTrafficPolicy, was.InternalTrafficPolicy) {
		spec.InternalTrafficPolicy = nil
	}
}

var trafficPolicies = []corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal}

// dropUnused clears what no Service of this type has.
func dropUnused(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName && s.Spec.ClusterIP == "" {
		s.Spec.ClusterIPs = nil
	}
	dropTrafficPolicy(s)
}

// dropTrafficPolicy clears the policy of a Service without traffic; validation says what is no policy.
func dropTrafficPolicy(s *corev1.Service) {
	if p := s.Spec.InternalTrafficPolicy; s.Spec.Type == corev1.ServiceTypeExternalName && p != nil && slices.Contains(trafficPolicies, *p) {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// sameNodePorts reports that no node port is new, whatever else of the ports is.
func sameNodePorts(now, was []corev1.ServicePort) bool {
	return !slices.ContainsFunc(now, func(p corev1.ServicePort) bool {
		return p.NodePort != 0 && !slices.ContainsFunc(was, func(q corev1.ServicePort) bool { return p.NodePort == q.NodePort })
	})
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
