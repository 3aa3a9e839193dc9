package shutdown

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/pod"
)

// What is said of a pod that ends because the machine goes down, as a kubelet says it.
const (
	reasonTerminated  = "Terminated"
	messageTerminated = "Pod was terminated in response to imminent node shutdown."
)

// Round are the pods that end together.
type Round struct {
	// Grace is how long they may take: what has not ended by then is left to the machine.
	Grace time.Duration
	Pods  []*corev1.Pod
}

// Rounds says which pods end, one round after the other. Groups in which none is take no time.
func Rounds(groups []Group, pods []*corev1.Pod) []Round {
	rounds := make([]Round, len(groups))
	for i, g := range groups {
		rounds[i].Grace = g.Grace
	}
	for _, p := range pods {
		if !pod.Finished(p) {
			at := groupOf(groups, ptr.Deref(p.Spec.Priority, 0))
			rounds[at].Pods = append(rounds[at].Pods, p)
		}
	}
	var out []Round
	for _, r := range rounds {
		if len(r.Pods) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// groupOf is the last group that begins at the priority or below it, the first where none does.
func groupOf(groups []Group, priority int32) int {
	at := 0
	for i, g := range groups {
		if g.Priority <= priority {
			at = i
		}
	}
	return at
}

// Why says why a pod of a round ends, and how long its containers have: their own time, but no more than the round's.
func (r Round) Why(p *corev1.Pod) *pod.Failure {
	grace := int64(r.Grace / time.Second)
	if own := p.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = min(grace, *own)
	}
	return &pod.Failure{Reason: reasonTerminated, Message: messageTerminated, Disruption: messageTerminated, Grace: &grace}
}
