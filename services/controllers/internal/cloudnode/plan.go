// Package cloudnode completes nodes that wait for what the provider of their machines knows: an id, labels, addresses. Until then a taint keeps pods away.
package cloudnode

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Provider knows machines.
type Provider interface {
	// Instance returns the machine of a node, nil where the provider has none of it.
	Instance(ctx context.Context, node *corev1.Node) (*Instance, error)
}

// Instance is what a provider knows of a machine. What is empty it does not know.
type Instance struct {
	ProviderID, Type, Zone, Region string
	Addresses                      []corev1.NodeAddress
}

// uninitialized is the taint of nodes that wait; their agents bring it (--cloud-provider=external).
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// waits says whether a node is to be completed.
func waits(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
}

// Complete returns the node with what is known of its machine, and without the taint.
func Complete(n *corev1.Node, is *Instance) *corev1.Node {
	n = n.DeepCopy()
	if n.Spec.ProviderID == "" {
		n.Spec.ProviderID = is.ProviderID
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for value, labels := range map[string][]string{
		is.Type:   {corev1.LabelInstanceType, corev1.LabelInstanceTypeStable},
		is.Zone:   {corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
		is.Region: {corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	} {
		for _, label := range labels {
			if value != "" {
				n.Labels[label] = value
			}
		}
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
	return n
}

// addressed returns the node with the addresses that the provider gives, nil where it has them. Its host name stays, where the provider knows none.
func addressed(n *corev1.Node, addresses []corev1.NodeAddress) *corev1.Node {
	if len(addresses) == 0 {
		return nil
	}
	named := func(list []corev1.NodeAddress) int {
		return slices.IndexFunc(list, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName })
	}
	if i := named(n.Status.Addresses); i >= 0 && named(addresses) < 0 {
		addresses = append(slices.Clone(addresses), n.Status.Addresses[i])
	}
	if reflect.DeepEqual(n.Status.Addresses, addresses) {
		return nil
	}
	n = n.DeepCopy()
	n.Status.Addresses = addresses
	return n
}
