// Package endpointslice keeps the EndpointSlices of each service with a
// selector, at most 100 endpoints a slice, with as few writes as it can.
package endpointslice

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/controllers/internal/backend"
	"howdah.dev/services/controllers/internal/pack"
	"howdah.dev/services/controllers/internal/pod"
)

const (
	// Manager is the managed-by label of the slices that are this controller's.
	Manager = "endpointslice-controller.k8s.io"
	// maxEndpoints is the most endpoints that a slice holds.
	maxEndpoints = 100
)

var serviceKind = corev1.SchemeGroupVersion.WithKind("Service")

// Observed is what a plan is made from.
type Observed struct {
	// Pods are those that the service's selector selects.
	Pods []*corev1.Pod
	// Slices are those for the service that bear this controller's label.
	Slices []*discoveryv1.EndpointSlice
	// Taken says whether a slice of the service's namespace has the name, whoever's it is.
	Taken func(name string) bool
	// Zone returns a node's zone, "" where it has none.
	Zone func(node string) string
	// Nodes returns all nodes. It is asked only where hints depend on them.
	Nodes func() []*corev1.Node
	// Trigger is what the slices are written for.
	Trigger time.Time
}

// Decide plans the slices of one service, and says what became of hints that are given by the CPUs of zones.
func Decide(s *corev1.Service, seen Observed) (pack.Plan, []Event) {
	o := pack.Owner{
		Namespace: s.Namespace, Prefix: s.Name + "-", Reference: *metav1.NewControllerRef(s, serviceKind), Limit: maxEndpoints, Taken: seen.Taken,
		Labels: labels(s), Annotations: map[string]string{}, Without: []string{corev1.EndpointsLastChangeTriggerTime},
	}
	backend.Annotate(o.Annotations, seen.Trigger)
	groups := desired(s, seen)
	own, strays := pack.Sort(seen.Slices, s)
	seen.Slices = own
	events := hint(s, groups, seen)
	plan := pack.Slices(o, groups, own)
	plan.Delete = append(plan.Delete, strays...)
	return plan, events
}

// desired returns the groups that there should be. A family without any
// endpoint has one empty group: its slice says that the service is known.
func desired(s *corev1.Service, seen Observed) map[string]*pack.Group {
	groups := map[string]*pack.Group{}
	for _, family := range backend.Families(s) {
		address := discoveryv1.AddressType(family)
		some := false
		for _, p := range seen.Pods {
			ip := backend.Address(p, family)
			if ip == "" || !backend.Reachable(p) {
				continue
			}
			var ports []discoveryv1.EndpointPort
			for _, port := range backend.Ports(s, p) {
				ports = append(ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Number, Protocol: &port.Protocol, AppProtocol: port.AppProtocol})
			}
			key := pack.Key(address, ports)
			g := groups[key]
			if g == nil {
				g = &pack.Group{Family: address, Ports: ports}
				groups[key] = g
			}
			g.Endpoints = append(g.Endpoints, endpoint(s, p, ip, seen.Zone))
			some = true
		}
		if !some {
			groups[pack.Key(address, nil)] = &pack.Group{Family: address}
		}
	}
	return groups
}

func endpoint(s *corev1.Service, p *corev1.Pod, ip string, zone func(string) string) discoveryv1.Endpoint {
	serving, terminating := pod.Ready(p), p.DeletionTimestamp != nil
	ready := s.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{
		Addresses:  []string{ip},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  backend.Reference(p),
	}
	if h := backend.Hostname(s, p); h != "" {
		e.Hostname = &h
	}
	if p.Spec.NodeName != "" {
		e.NodeName = &p.Spec.NodeName
		if z := zone(p.Spec.NodeName); z != "" {
			e.Zone = &z
		}
	}
	return e
}

func labels(s *corev1.Service) map[string]string {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName] = s.Name
	labels[discoveryv1.LabelManagedBy] = Manager
	delete(labels, corev1.IsHeadlessService)
	if backend.Headless(s) {
		labels[corev1.IsHeadlessService] = ""
	}
	return labels
}
