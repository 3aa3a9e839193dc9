// Package cloudnodelifecycle looks after nodes that are not ready by what the provider knows of their machines: one that is gone loses its Node, one that is
// switched off gets a taint.
package cloudnodelifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Machine is how the machine of a node is.
type Machine int

const (
	// Running is a machine of which nothing else is known, too.
	Running Machine = iota
	// Stopped is one that is there, and switched off.
	Stopped
	// Gone is one that the provider has no more.
	Gone
)

// shutdown is the taint of nodes whose machine is switched off.
const shutdown = "node.cloudprovider.kubernetes.io/shutdown"

// action is what is to be done about a node.
type action int

const (
	nothing action = iota
	mark
	unmark
	remove
)

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func marked(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == shutdown })
}

// plan decides about a node; of one that is ready the machine is not asked for.
func plan(n *corev1.Node, machine Machine) action {
	switch {
	case ready(n):
		if marked(n) {
			return unmark
		}
	case machine == Gone:
		return remove
	case machine == Stopped && !marked(n):
		return mark
	}
	return nothing
}
