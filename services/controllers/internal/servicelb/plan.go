// Package servicelb has a provider make load balancers for Services of the type LoadBalancer, and notes their addresses in the Services. Who the
// provider is it does not know.
package servicelb

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Provider makes load balancers. Every call may come again, for whatever reason, and for a Service that it has not heard of.
type Provider interface {
	// Ensure makes or changes the load balancer of a Service, in front of these nodes, and returns its addresses.
	Ensure(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (corev1.LoadBalancerStatus, error)
	// Update tells of other nodes behind a load balancer that is there.
	Update(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) error
	// Delete removes the load balancer of a Service; there may be none.
	Delete(ctx context.Context, service *corev1.Service) error
}

const (
	// Finalizer keeps a Service until its load balancer is gone.
	Finalizer = "service.kubernetes.io/load-balancer-cleanup"
	// toBeDeleted is the taint of nodes that an autoscaler is about to remove.
	toBeDeleted = "ToBeDeletedByClusterAutoscaler"
)

// Wants says whether a Service is to have a load balancer of this cluster's provider. One with a class of its own is somebody else's.
func Wants(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

// ours says whether there is, or may be, a load balancer to remove.
func ours(s *corev1.Service) bool { return slices.Contains(s.Finalizers, Finalizer) }

// Eligible says whether traffic from outside may be sent to the node. Readiness does not count: that is what health checks are for.
func Eligible(n *corev1.Node) bool {
	_, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]
	return !excluded && n.DeletionTimestamp == nil &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted })
}

// eligible returns the nodes that load balancers are in front of, by name.
func eligible(nodes []*corev1.Node) []*corev1.Node {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !Eligible(n) })
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// hosts is what has to be equal for two lists of nodes to be the same to a load balancer.
func hosts(nodes []*corev1.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name+" "+n.Spec.ProviderID)
	}
	return strings.Join(all, ",")
}

// names lists nodes for people: the first fifty of them.
func names(nodes []*corev1.Node) []string {
	var all []string
	for _, n := range nodes[:min(len(nodes), 50)] {
		all = append(all, n.Name)
	}
	return all
}

// event is a change of a Service that its load balancer follows, told in Kubernetes' words.
type event struct{ reason, message string }

// compare returns whether a load balancer has to follow a change, and what is told of it. ignored are annotations that are the provider's own notes.
func compare(old, new *corev1.Service, ignored func(annotation string) bool) (follows bool, told []event) {
	tell := func(reason, format string, args ...any) {
		follows = true
		told = append(told, event{reason, fmt.Sprintf(format, args...)})
	}
	was, is := &old.Spec, &new.Spec
	if old.UID != new.UID {
		tell("UID", "%v -> %v", old.UID, new.UID)
	}
	if Wants(old) != Wants(new) {
		tell("Type", "%v -> %v", was.Type, is.Type)
	}
	if Wants(new) && !slices.Equal(was.LoadBalancerSourceRanges, is.LoadBalancerSourceRanges) {
		tell("LoadBalancerSourceRanges", "%v -> %v", was.LoadBalancerSourceRanges, is.LoadBalancerSourceRanges)
	}
	if was.LoadBalancerIP != is.LoadBalancerIP {
		tell("LoadbalancerIP", "%v -> %v", was.LoadBalancerIP, is.LoadBalancerIP)
	}
	if len(was.ExternalIPs) != len(is.ExternalIPs) {
		tell("ExternalIP", "Count: %v -> %v", len(was.ExternalIPs), len(is.ExternalIPs))
	} else if i := slices.IndexFunc(is.ExternalIPs, func(ip string) bool { return !slices.Contains(was.ExternalIPs, ip) }); i >= 0 {
		tell("ExternalIP", "Added: %v", is.ExternalIPs[i])
	}
	if was.ExternalTrafficPolicy != is.ExternalTrafficPolicy {
		tell("ExternalTrafficPolicy", "%v -> %v", was.ExternalTrafficPolicy, is.ExternalTrafficPolicy)
	}
	if was.HealthCheckNodePort != is.HealthCheckNodePort {
		tell("HealthCheckNodePort", "%v -> %v", was.HealthCheckNodePort, is.HealthCheckNodePort)
	}
	notes := func(s *corev1.Service) map[string]string {
		all := maps.Clone(s.Annotations)
		maps.DeleteFunc(all, func(key, _ string) bool { return ignored(key) })
		return all
	}
	if !reflect.DeepEqual(was.Ports, is.Ports) || was.SessionAffinity != is.SessionAffinity ||
		!reflect.DeepEqual(was.SessionAffinityConfig, is.SessionAffinityConfig) || !maps.Equal(notes(old), notes(new)) ||
		!reflect.DeepEqual(was.IPFamilyPolicy, is.IPFamilyPolicy) || !slices.Equal(was.IPFamilies, is.IPFamilies) ||
		!reflect.DeepEqual(was.AllocateLoadBalancerNodePorts, is.AllocateLoadBalancerNodePorts) {
		follows = true
	}
	return follows, told
}
