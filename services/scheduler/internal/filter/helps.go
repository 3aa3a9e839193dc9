package filter

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/scheduler/internal/cluster"
)

// FreedBy reports whether a pod that filters refused may go somewhere now that another one has left its node.
func FreedBy(refusers []Filter, pod, gone *corev1.Pod) bool {
	return slices.ContainsFunc(refusers, func(f Filter) bool {
		return f.Of != OnNode && f.Of != OnTaints && f.Of != OnPlace && (f.Frees == nil || f.Frees(pod, gone))
	})
}

// LostBy reports whether a pod that filters refused may go somewhere now that a node is gone.
func LostBy(refusers []Filter, pod *corev1.Pod, gone *corev1.Node, snapshot cluster.Snapshot) bool {
	return slices.ContainsFunc(refusers, func(f Filter) bool { return f.Loses != nil && f.Loses(pod, gone, snapshot) })
}

// LetInBy reports whether a pod that filters refused may go to a node that has come, or that has changed: one that refuses it by its own object lets it in
// only if it did not before. Where its taints are others, all are asked again whose verdict does not follow from these, as in Kubernetes. The snapshot's
// nodes are not looked at.
func LetInBy(refusers []Filter, pod *corev1.Pod, was, now *corev1.Node, snapshot cluster.Snapshot) bool {
	snapshot.Nodes = nil
	return slices.ContainsFunc(refusers, func(f Filter) bool {
		if f.Of == OnAnything || f.Of != OnTaints && was != nil && !sameTaints(was, now) {
			return true
		}
		if f.Of == OnPlace {
			return was == nil || !maps.Equal(was.Labels, now.Labels)
		}
		check := f.Prepare(pod, snapshot)
		passes := func(n *corev1.Node) bool { return check == nil || check.Check(cluster.EmptyNode(n)) }
		switch {
		case !passes(now):
			return false
		case was == nil:
			return true
		case f.Of == OnRoom:
			return cluster.EmptyNode(now).Allocatable.Exceeds(cluster.EmptyNode(was).Allocatable, cluster.Requests(pod))
		}
		return !passes(was)
	})
}

// HelpedBy reports whether a pod that filters refused may go somewhere now that it has changed itself: one that waits changes its labels, its
// tolerations and, if it is resized, its requests.
func HelpedBy(refusers []Filter, was, is *corev1.Pod) bool {
	return slices.ContainsFunc(refusers, func(f Filter) bool {
		switch f.Of {
		case OnNode, OnPlace:
			return false
		case OnTaints:
			return !equality.Semantic.DeepEqual(was.Spec.Tolerations, is.Spec.Tolerations)
		case OnRoom:
			return !equality.Semantic.DeepEqual(cluster.Requests(was), cluster.Requests(is))
		}
		return true
	})
}

func sameTaints(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}
