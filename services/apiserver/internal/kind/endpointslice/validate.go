package endpointslice

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/kit/check"
)

// The sizes that a slice may have.
const (
	maxEndpoints = 1000
	maxPorts     = 20000
	maxAddresses = 100
	maxZoneHints = 8
	maxNodeHints = 8
)

func validate(s *discoveryv1.EndpointSlice) field.ErrorList {
	return append(validateAround(s), validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))...)
}

// validateAround checks all but the endpoints.
func validateAround(s *discoveryv1.EndpointSlice) field.ErrorList {
	errs := check.Choice(s.AddressType, field.NewPath("addressType"),
		discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	return append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
}

// validateUpdate lets endpoints stay that older versions took.
func validateUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateAround(s)
	if wrong := validateEndpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints")); len(wrong) > 0 && !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		errs = append(errs, wrong...)
	}
	return append(errs, check.Same(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func validateEndpoints(list []discoveryv1.Endpoint, family discoveryv1.AddressType, path *field.Path) field.ErrorList {
	if len(list) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(list), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range list {
		e, path := &list[i], path.Index(i)
		switch n := len(e.Addresses); {
		case n == 0:
			errs = append(errs, field.Required(path.Child("addresses"), "must contain at least 1 address"))
		case n > maxAddresses:
			errs = append(errs, field.TooMany(path.Child("addresses"), n, maxAddresses))
		}
		for j, a := range e.Addresses {
			errs = append(errs, validateAddress(a, family, path.Child("addresses"), j)...)
		}
		if e.NodeName != nil {
			errs = append(errs, check.Subdomain(*e.NodeName, path.Child("nodeName"))...)
		}
		if e.Hostname != nil {
			errs = append(errs, check.Label(*e.Hostname, path.Child("hostname"))...)
		}
		if e.Hints != nil {
			errs = append(errs, validateHints(e.Hints, path.Child("hints"))...)
		}
	}
	return errs
}

// validateAddress reports an address of the wrong family at the list.
func validateAddress(address string, family discoveryv1.AddressType, list *field.Path, i int) field.ErrorList {
	path := list.Index(i)
	switch family {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		var errs field.ErrorList
		six, wanted := netutils.IsIPv6String(address), family == discoveryv1.AddressTypeIPv6
		if !six || wanted {
			if bad := validation.IsValidIP(path, address); len(bad) > 0 {
				return bad
			}
		}
		if six != wanted {
			errs = append(errs, field.Invalid(list, address, fmt.Sprintf("must be an %s address", family)))
		}
		return append(errs, check.PublicIP(address, path)...)
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	}
	return nil
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(h.ForZones) > maxZoneHints {
		return append(errs, field.TooMany(zones, len(h.ForZones), maxZoneHints))
	}
	seen := map[string]bool{}
	for i, z := range h.ForZones {
		at := zones.Index(i).Child("name")
		if seen[z.Name] {
			errs = append(errs, field.Duplicate(at, z.Name))
		}
		seen[z.Name] = true
		errs = append(errs, check.Each(validation.IsValidLabelValue(z.Name), z.Name, at)...)
	}
	if len(h.ForNodes) > maxNodeHints {
		return append(errs, field.TooMany(nodes, len(h.ForNodes), maxNodeHints))
	}
	seen = map[string]bool{}
	for i, n := range h.ForNodes {
		at := nodes.Index(i).Child("name")
		if seen[n.Name] {
			errs = append(errs, field.Duplicate(at, n.Name))
		}
		seen[n.Name] = true
		errs = append(errs, check.Subdomain(n.Name, at)...)
	}
	return errs
}

func validatePorts(list []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(list) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(list), maxPorts)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, p := range list {
		path := path.Index(i)
		if p.Name != nil {
			if *p.Name != "" {
				errs = append(errs, check.Label(*p.Name, path.Child("name"))...)
			}
			if seen[*p.Name] {
				errs = append(errs, field.Duplicate(path.Child("name"), *p.Name))
			}
			seen[*p.Name] = true
		}
		if p.Protocol == nil {
			errs = append(errs, field.Required(path.Child("protocol"), ""))
		} else {
			errs = append(errs, check.OneOf(*p.Protocol, path.Child("protocol"),
				corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		}
		if p.AppProtocol != nil {
			errs = append(errs, check.QualifiedName(*p.AppProtocol, path.Child("appProtocol"))...)
		}
	}
	return errs
}
