package replicaset

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/controllers/internal/pod"
)

// rank sorts pods by how little it costs to delete them. The order is
// Kubernetes': not assigned to a node first, then by phase, readiness,
// deletion cost, doubling-up on a node, time of readiness, restarts, age.
// related are further pods that count for doubling-up, as those of the other
// ReplicaSets of one Deployment.
func rank(pods, related []*corev1.Pod, now time.Time) []*corev1.Pod {
	onNode := map[string]int{}
	counted := map[types.UID]bool{}
	for _, p := range slices.Concat(pods, related) {
		if !counted[p.UID] && pod.Active(p) && p.Spec.NodeName != "" {
			counted[p.UID] = true
			onNode[p.Spec.NodeName]++
		}
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseOrder(a), phaseOrder(b)),
			falseFirst(pod.Ready(a), pod.Ready(b)),
			cmp.Compare(cost(a), cost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			cmp.Compare(ageClass(readySince(a), now), ageClass(readySince(b), now)),
			cmp.Compare(restarts(b), restarts(a)),
			cmp.Compare(ageClass(a.CreationTimestamp, now), ageClass(b.CreationTimestamp, now)),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return sorted
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case !a:
		return -1
	}
	return 1
}

func phaseOrder(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodPending, "":
		return 0
	case corev1.PodUnknown:
		return 1
	}
	return 2
}

// cost is the controller.kubernetes.io/pod-deletion-cost annotation; what is
// no number there counts as 0.
func cost(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// ageClass is the power of two of an age: pods of about the same age are not
// told apart, so that the youngest are not always the ones to go. Unset and
// future times are the youngest.
func ageClass(t metav1.Time, now time.Time) int {
	age := now.Sub(t.Time)
	if t.IsZero() || age <= 0 {
		return 0
	}
	return bits.Len64(uint64(age))
}

func readySince(p *corev1.Pod) metav1.Time {
	if c := pod.Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

func restarts(p *corev1.Pod) int32 {
	var most int32
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}
