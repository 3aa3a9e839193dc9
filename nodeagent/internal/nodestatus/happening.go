package nodestatus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// happening is an event of the node.
type happening struct{ kind, reason, message string }

// reasons are those of the events of conditions that come to hold, and that come to hold no more.
var reasons = map[corev1.NodeConditionType][2]string{
	corev1.NodeMemoryPressure: {"NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	corev1.NodeDiskPressure:   {"NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	corev1.NodePIDPressure:    {"NodeHasInsufficientPID", "NodeHasSufficientPID"},
	corev1.NodeReady:          {"NodeReady", "NodeNotReady"},
}

// becomes is the event of a node that is something now.
func becomes(node *corev1.Node, what string) happening {
	return happening{corev1.EventTypeNormal, what, fmt.Sprintf("Node %s status is now: %s", node.Name, what)}
}

// happenings are the events that tell of how the node's status has changed, as a kubelet tells of it.
func happenings(before, now *corev1.Node) []happening {
	var out []happening
	is := func(reason string) { out = append(out, becomes(now, reason)) }
	if was, boot := before.Status.NodeInfo.BootID, now.Status.NodeInfo.BootID; was != "" && was != boot {
		out = append(out, happening{corev1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", now.Name, boot)})
	}
	was := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range before.Status.Conditions {
		was[c.Type] = c.Status
	}
	for _, c := range now.Status.Conditions {
		words, own := reasons[c.Type]
		switch {
		case !own || was[c.Type] == c.Status:
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && was[c.Type] == "": // a node that is new is about to be ready
		case c.Status == corev1.ConditionTrue:
			is(words[0])
		default:
			is(words[1])
		}
	}
	return out
}

// tell records what has become of the node with a write of its status.
func (r *Reporter) tell(before, now *corev1.Node) {
	if r.cfg.Event == nil {
		return
	}
	for _, h := range happenings(before, now) {
		r.cfg.Event(h.kind, h.reason, h.message)
	}
	r.tellCordon(now)
}

// tellCordon records that new pods are kept from the node, or are not any more. Of what was before this life nothing is known.
func (r *Reporter) tellCordon(node *corev1.Node) {
	if r.cfg.Event == nil || node.Spec.Unschedulable == r.cordoned {
		return
	}
	r.cordoned = node.Spec.Unschedulable
	h := becomes(node, "NodeSchedulable")
	if r.cordoned {
		h = becomes(node, "NodeNotSchedulable")
	}
	r.cfg.Event(h.kind, h.reason, h.message)
}
