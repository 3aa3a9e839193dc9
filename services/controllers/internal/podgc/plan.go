// Package podgc removes pods that nobody else will: ended ones beyond a
// number, those of nodes that are gone, and those deleted before they had a node.
package podgc

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/controllers/internal/pod"
)

// Node is what is known of a pod's node.
type Node struct {
	Exists bool
	// Lost says that it is not ready and tainted out-of-service: an operator
	// vouches that nothing runs there.
	Lost bool
}

// Why a pod is removed, as Kubernetes' metrics say it.
const (
	orphaned     = "orphaned"       // its node is gone
	unscheduled  = "unscheduled"    // it was deleted before it had one
	outOfService = "out-of-service" // it was deleted, and its node is lost
	terminated   = "terminated"     // it has ended, as too many others have
)

// Removal is one pod to delete at once, and why.
type Removal struct {
	Pod *corev1.Pod
	// Reason and Message of its DisruptionTarget condition; empty writes none.
	Reason, Message string
	// Cause is one of those above.
	Cause string
}

// Decide returns the pods to remove. node tells of a pod's node; threshold is
// how many ended pods are kept.
func Decide(pods []*corev1.Pod, node func(name string) Node, threshold int) []Removal {
	var (
		removals []Removal
		ended    []*corev1.Pod
	)
	for _, p := range pods {
		switch {
		case p.Spec.NodeName != "" && !node(p.Spec.NodeName).Exists:
			r := Removal{Pod: p, Cause: orphaned}
			if !pod.Terminal(p) {
				r.Reason, r.Message = "DeletionByPodGC", "PodGC: node no longer exists"
			}
			removals = append(removals, r)
		case p.Spec.NodeName == "" && p.DeletionTimestamp != nil:
			removals = append(removals, Removal{Pod: p, Cause: unscheduled})
		case p.Spec.NodeName != "" && p.DeletionTimestamp != nil && node(p.Spec.NodeName).Lost:
			removals = append(removals, Removal{Pod: p, Cause: outOfService})
		case pod.Terminal(p) && p.DeletionTimestamp == nil:
			ended = append(ended, p)
		}
	}
	if excess := len(ended) - threshold; threshold > 0 && excess > 0 {
		slices.SortFunc(ended, func(a, b *corev1.Pod) int {
			return cmp.Or(-cmp.Compare(evicted(a), evicted(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		for _, p := range ended[:excess] {
			removals = append(removals, Removal{Pod: p, Cause: terminated})
		}
	}
	return removals
}

// evicted pods go first.
func evicted(p *corev1.Pod) int {
	if p.Status.Reason == "Evicted" {
		return 1
	}
	return 0
}
