// Package endpointslicemirroring copies Endpoints that users write for
// services without a selector into EndpointSlices, which load balancers read.
package endpointslicemirroring

import (
	"maps"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/controllers/internal/backend"
	"howdah.dev/services/controllers/internal/pack"
)

const (
	// Manager is the managed-by label of the slices that are this controller's.
	Manager = "endpointslicemirroring-controller.k8s.io"
	// maxAddresses is how many addresses of a subset are mirrored, in one slice.
	maxAddresses = 1000
	// leaderAnnotation marks Endpoints that elect leaders and serve nothing.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
)

var endpointsKind = corev1.SchemeGroupVersion.WithKind("Endpoints")

// Mirrored says whether the Endpoints are to be mirrored. s is nil where
// there is no service of the name.
func Mirrored(e *corev1.Endpoints, s *corev1.Service) bool {
	_, elects := e.Annotations[leaderAnnotation]
	return s != nil && len(s.Spec.Selector) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName &&
		e.DeletionTimestamp == nil && !elects && e.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// Skipped counts the addresses that are not mirrored.
type Skipped struct {
	Invalid int // those that are no addresses
	All     int // and those that are too many
}

// Decide plans the slices that mirror the Endpoints, with names that are not taken. Subsets with the same ports count as one.
func Decide(e *corev1.Endpoints, existing []*discoveryv1.EndpointSlice, taken func(name string) bool) (plan pack.Plan, skipped Skipped) {
	groups := map[string]*pack.Group{}
	subsets := backend.Repack(e.Subsets)
	for i := range subsets {
		subset := &subsets[i]
		ports := ports(subset.Ports)
		room := maxAddresses
		for _, part := range []struct {
			addresses []corev1.EndpointAddress
			ready     bool
		}{{subset.Addresses, true}, {subset.NotReadyAddresses, false}} {
			for j := range part.addresses {
				ip := netutils.ParseIPSloppy(part.addresses[j].IP)
				if ip == nil {
					skipped.Invalid++
				}
				if ip == nil || room == 0 {
					skipped.All++
					continue
				}
				room--
				add(groups, ports, &part.addresses[j], ip, part.ready)
			}
		}
	}
	return pack.Slices(pack.Owner{
		Namespace: e.Namespace, Prefix: e.Name + "-", Reference: *metav1.NewControllerRef(e, endpointsKind), Limit: maxAddresses,
		Labels: labels(e), Annotations: annotations(e), Mirrors: true, Taken: taken,
	}, groups, existing), skipped
}

func ports(from []corev1.EndpointPort) []discoveryv1.EndpointPort {
	var ports []discoveryv1.EndpointPort
	for _, p := range from {
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return ports
}

func add(groups map[string]*pack.Group, ports []discoveryv1.EndpointPort, a *corev1.EndpointAddress, ip net.IP, ready bool) {
	family := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	key := pack.Key(family, ports)
	g := groups[key]
	if g == nil {
		g = &pack.Group{Family: family, Ports: ports}
		groups[key] = g
	}
	e := discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	g.Endpoints = append(g.Endpoints, e)
}

func labels(e *corev1.Endpoints) map[string]string {
	labels := maps.Clone(e.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName] = e.Name
	labels[discoveryv1.LabelManagedBy] = Manager
	return labels
}

func annotations(e *corev1.Endpoints) map[string]string {
	kept := maps.Clone(e.Annotations)
	delete(kept, corev1.LastAppliedConfigAnnotation)
	delete(kept, corev1.EndpointsLastChangeTriggerTime)
	return kept
}
