package service

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func validate(s *corev1.Service) field.ErrorList { return validateOver(s, &corev1.Service{}) }

// validateOver lets the addresses and networks stay that old has, as older versions took them.
func validateOver(s, old *corev1.Service) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if len(spec.Ports) == 0 && !headless(s) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, validateType(s, path)...)
	errs = append(errs, validatePorts(s, path.Child("ports"))...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, validateAffinity(spec, path)...)
	errs = append(errs, validateIPs(s, path, old.Spec.ClusterIPs)...)
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if bad := validation.IsValidIPForLegacyField(at, ip, true, old.Spec.ExternalIPs); len(bad) > 0 {
			errs = append(errs, bad...)
		} else {
			errs = append(errs, check.PublicIP(ip, at)...)
		}
	}
	errs = append(errs, check.Choice(spec.Type, path.Child("type"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)...)
	errs = append(errs, validateUses(s, path.Child("ports"))...)
	errs = append(errs, validateBalancer(s, old, path)...)
	return append(errs, validatePolicies(s, path)...)
}

func validateType(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if headless(s) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), corev1.ClusterIPNone,
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"clusterIPs", len(spec.ClusterIPs) > 0},
			{"ipFamilies", len(spec.IPFamilies) > 0},
			{"ipFamilyPolicy", spec.IPFamilyPolicy != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(path.Child(f.name), "may not be set for ExternalName services"))
			}
		}
		at := path.Child("externalName")
		if name := strings.TrimSuffix(spec.ExternalName, "."); name != "" {
			errs = append(errs, check.Subdomain(name, at)...)
		} else {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}

func validatePorts(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range spec.Ports {
		errs = append(errs, validatePort(&spec.Ports[i], len(spec.Ports) > 1, names, path.Index(i))...)
	}
	return errs
}

// validateUses wants node ports where the type has them, and no two ports for the same. ExternalName Services keep node ports,
// and reserve none.
func validateUses(s *corev1.Service, path *field.Path) field.ErrorList {
	type listening struct {
		protocol corev1.Protocol
		port     int32
	}
	var forbidden, twice, same field.ErrorList
	nodePorts, ports := map[use]bool{}, map[listening]bool{}
	for i, p := range s.Spec.Ports {
		at := path.Index(i)
		if p.NodePort != 0 && s.Spec.Type == corev1.ServiceTypeClusterIP {
			forbidden = append(forbidden, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		if p.NodePort != 0 {
			if nodePorts[use{p.Protocol, p.NodePort}] {
				twice = append(twice, field.Duplicate(at.Child("nodePort"), p.NodePort))
			}
			nodePorts[use{p.Protocol, p.NodePort}] = true
		}
		if ports[listening{p.Protocol, p.Port}] {
			same = append(same, field.Duplicate(at, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		}
		ports[listening{p.Protocol, p.Port}] = true
	}
	return append(append(forbidden, twice...), same...)
}

func validatePort(p *corev1.ServicePort, named bool, names map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name == "" && named:
		errs = append(errs, field.Required(path.Child("name"), ""))
	case p.Name != "":
		errs = append(errs, check.Label(p.Name, path.Child("name"))...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
	}
	errs = append(errs, check.Port(p.Port, path.Child("port"))...)
	errs = append(errs, check.Choice(p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	at := path.Child("targetPort")
	if p.TargetPort.Type == intstr.Int {
		errs = append(errs, check.Each(validation.IsValidPortNum(p.TargetPort.IntValue()), p.TargetPort.IntValue(), at)...)
	} else {
		errs = append(errs, check.Each(validation.IsValidPortName(p.TargetPort.StrVal), p.TargetPort.StrVal, at)...)
	}
	if p.AppProtocol != nil {
		errs = append(errs, check.QualifiedName(*p.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

// The longest time, in seconds, that a client may be tied to an endpoint.
const longestAffinity = 86400

func validateAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := check.Choice(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at := path.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("must not be set when session affinity is %s", corev1.ServiceAffinityNone)))
		}
	case corev1.ServiceAffinityClientIP:
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			return append(errs, field.Required(at, fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP)))
		}
		if n := *c.ClientIP.TimeoutSeconds; n <= 0 || n > longestAffinity {
			errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), n,
				fmt.Sprintf("must be greater than 0 and less than %d", longestAffinity)))
		}
	}
	return errs
}

// validateBalancer checks what goes with the type LoadBalancer only.
func validateBalancer(s, old *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	const text = "may only be used when `type` is 'LoadBalancer'"
	ranges := path.Child("LoadBalancerSourceRanges") // so spelled
	if len(spec.LoadBalancerSourceRanges) > 0 && !balanced {
		errs = append(errs, field.Forbidden(ranges, text))
	}
	var known []string
	for _, r := range old.Spec.LoadBalancerSourceRanges {
		known = append(known, strings.TrimSpace(r))
	}
	for i, r := range spec.LoadBalancerSourceRanges {
		errs = append(errs, validation.IsValidCIDRForLegacyField(ranges.Index(i), strings.TrimSpace(r), true, known)...)
	}
	switch at := path.Child("allocateLoadBalancerNodePorts"); {
	case balanced && spec.AllocateLoadBalancerNodePorts == nil:
		errs = append(errs, field.Required(at, ""))
	case !balanced && spec.AllocateLoadBalancerNodePorts != nil:
		errs = append(errs, field.Forbidden(at, text))
	}
	if c := spec.LoadBalancerClass; c != nil {
		if !balanced {
			errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), text))
		} else {
			errs = append(errs, check.QualifiedName(*c, path.Child("loadBalancerClass"))...)
		}
	}
	return errs
}

// validatePolicies checks where traffic may go.
func validatePolicies(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	outside := path.Child("externalTrafficPolicy")
	if reachable(s) {
		errs = append(errs, check.Choice(spec.ExternalTrafficPolicy, outside,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(outside, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	switch n, at := spec.HealthCheckNodePort, path.Child("healthCheckNodePort"); {
	case n != 0 && !needsHealthCheckPort(s):
		errs = append(errs, field.Invalid(at, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	case n != 0:
		errs = append(errs, check.Port(n, at)...)
	}
	inside := path.Child("internalTrafficPolicy")
	if p := spec.InternalTrafficPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, inside, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	} else if spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(inside, ""))
	}
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, check.Listed(*d, path.Child("trafficDistribution"), corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

func validateStatusUpdate(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "loadBalancer", "ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var known []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		known = append(known, in.IP)
	}
	for i, in := range s.Status.LoadBalancer.Ingress {
		at := path.Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), in.IP, true, known)...)
		}
		switch {
		case in.IP != "" && in.IPMode == nil:
			errs = append(errs, field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IP == "" && in.IPMode != nil:
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		case in.IPMode != nil:
			errs = append(errs, check.OneOf(*in.IPMode, at.Child("ipMode"), corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy)...)
		}
		if in.Hostname != "" {
			errs = append(errs, check.Each(apivalidation.NameIsDNSSubdomain(in.Hostname, false), in.Hostname, at.Child("hostname"))...)
			if len(validation.IsValidIP(at, in.Hostname)) == 0 {
				errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
