// Package filter decides which nodes a pod may run on. Adding a filter is
// adding a file with its Filter and a row in the table of package plugin.
package filter

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/storage"
)

// Filter prepares the check of one pod.
type Filter struct {
	// Name is Kubernetes' name of the plugin, as in "NodeResourcesFit".
	Name string
	// Prepare returns the pod's check against the nodes of a snapshot, or nil
	// where every node passes.
	Prepare func(pod *corev1.Pod, snapshot cluster.Snapshot) Check
	// Ahead, where not nil, says why no node can take the pod, whatever the node is; "" where it depends on the node. No filter is asked
	// about nodes then.
	Ahead func(pod *corev1.Pod, snapshot cluster.Snapshot) string
	// Only, where not nil, returns the names of the only nodes that can pass, where the pod itself says so: no other is then asked.
	// ok is false where it does not say.
	Only func(pod *corev1.Pod) (nodes []string, ok bool)
	// AcrossNodes says that a node's verdict depends on pods of other nodes,
	// so that it must be prepared anew after each placement.
	AcrossNodes bool
	// Of is what a verdict depends on. Where only other things change, a pod that was refused needs not be asked about again.
	Of Dependence
	// Frees, where not nil, reports whether a pod that was refused may pass once another one is gone from its node.
	Frees func(pod, gone *corev1.Pod) bool
	// Loses, where not nil, reports whether a pod that was refused may pass elsewhere once a node is gone. The snapshot's nodes are not looked at.
	Loses func(pod *corev1.Pod, gone *corev1.Node, snapshot cluster.Snapshot) bool
	// Alter, where AcrossNodes is set, returns what Prepare would if one node were like now, which differs by its pods alone. The check is
	// the prepared one, nil or not, and was the node as it was then. Nodes other than now must not be asked of the result.
	Alter func(pod *corev1.Pod, check Check, was, now *cluster.Node) Check
}

// Dependence is what a filter's verdict about a node depends on, beside the pod itself.
type Dependence int

// What verdicts depend on.
const (
	OnAnything Dependence = iota
	OnNode                // the node's own object
	OnTaints              // of that, its taints and whether it is cordoned
	OnRoom                // and what its pods have taken of it
	OnPlace               // its labels, and volumes, whose changes are asked about by themselves
)

// Check is one pod's question to a node.
type Check interface {
	// Check reports whether the node passes. It is the hot path.
	Check(n *cluster.Node) bool
	// Explain returns why the node does not pass, as in "Insufficient cpu";
	// it is called for nodes that Check refused.
	Explain(n *cluster.Node) []string
	// Resolvable reports whether a node that Check refused may pass without some of its pods.
	Resolvable(n *cluster.Node) bool
}

// Chooser is a Check of a pod for which more is chosen than the node: each placement then changes what the next one finds.
type Chooser interface {
	// Choose adds to a choice what binds the claims of the pod on a node that passed.
	Choose(n *cluster.Node, choice *Choice) error
}

// Choice is what is chosen for a pod beside its node, nil where nothing is.
type Choice struct {
	Volumes *storage.Choice
	Devices *device.Choice
}

// Releaser is a Check of a pod that could go somewhere if it had not what it has.
type Releaser interface {
	// Release returns the claim whose devices are to be given back after no node passed, nil for none.
	Release() *resourcev1.ResourceClaim
}

// Faulter is a Check that may find, when it is asked about a node, that something is wrong with what the pod wants and not with the node. Then the pod
// goes nowhere, whatever other nodes have: who wrote it is to hear of it.
type Faulter interface {
	// Fault says what is wrong, "" where nothing was found so far.
	Fault() string
}

// Everywhere is the check of a pod that no node can take.
func Everywhere(reason string) Check {
	return check{passes: func(*cluster.Node) bool { return false }, reason: reason}
}

// check is a Check with one constant reason.
type check struct {
	passes func(n *cluster.Node) bool
	reason string
	// byPods says that the pods of a node are what it is refused for.
	byPods bool
}

func (c check) Check(n *cluster.Node) bool       { return c.passes(n) }
func (c check) Explain(_ *cluster.Node) []string { return []string{c.reason} }
func (c check) Resolvable(_ *cluster.Node) bool  { return c.byPods }

// changed calls gone for pods that are only in was, and come for pods that are only in now. One that has another place among them may be
// told of as both.
func changed(was, now []*corev1.Pod, gone, come func(*corev1.Pod)) {
	for _, p := range was {
		if len(now) > 0 && now[0] == p {
			now = now[1:]
		} else {
			gone(p)
		}
	}
	for _, p := range now {
		come(p)
	}
}
