// Package nodelifecycle watches nodes' signs of life and says by conditions
// and taints which of them pods can be on.
package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watched are the conditions that become Unknown when a node falls silent.
var watched = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// condition returns the node's condition of a type, or nil.
func condition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// readiness is the status of the Ready condition; Unknown where there is none.
func readiness(n *corev1.Node) corev1.ConditionStatus {
	if c := condition(n, corev1.NodeReady); c != nil {
		return c.Status
	}
	return corev1.ConditionUnknown
}

// Silenced returns the conditions of a node that is not heard any more, and
// whether they differ from those it has.
func Silenced(n *corev1.Node, now time.Time) ([]corev1.NodeCondition, bool) {
	conditions := slices.Clone(n.Status.Conditions)
	changed := false
	for _, kind := range watched {
		i := slices.IndexFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		switch {
		case i < 0:
			conditions = append(conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			changed = true
		case conditions[i].Status != corev1.ConditionUnknown:
			conditions[i].Status = corev1.ConditionUnknown
			conditions[i].Reason, conditions[i].Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
			conditions[i].LastTransitionTime = metav1.NewTime(now)
			changed = true
		}
	}
	return conditions, changed
}

// byCondition are the NoSchedule taints that conditions bring.
var byCondition = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// evicting are the NoExecute taints that this controller sets.
var evicting = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}

func evictingTaint(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && slices.Contains(evicting, t.Key)
}

// Taints is the plan for a node's taints.
type Taints struct {
	// Want is the whole list, without a NoExecute taint that is new.
	Want []corev1.Taint
	// Evict is the NoExecute taint to add when the zone's rate permits; nil is none.
	Evict *corev1.Taint
}

// DecideTaints returns the taints that the node's conditions call for. Taints
// of others are kept as they are.
func DecideTaints(n *corev1.Node, now time.Time) Taints {
	noSchedule := map[string]bool{}
	for _, b := range byCondition {
		// A node that never reported has none until it is silent: admission's taint of new nodes goes, too, as in Kubernetes.
		if c := condition(n, b.condition); c != nil && c.Status == b.status {
			noSchedule[b.taint] = true
		}
	}
	if n.Spec.Unschedulable {
		noSchedule[corev1.TaintNodeUnschedulable] = true
	}
	execute := ""
	switch c := condition(n, corev1.NodeReady); {
	case c == nil:
	case c.Status == corev1.ConditionFalse:
		execute = corev1.TaintNodeNotReady
	case c.Status == corev1.ConditionUnknown:
		execute = corev1.TaintNodeUnreachable
	}
	var t Taints
	has := map[string]bool{}
	for _, taint := range n.Spec.Taints {
		switch {
		case taint.Effect == corev1.TaintEffectNoSchedule && ours(taint.Key):
			if !noSchedule[taint.Key] {
				continue
			}
			delete(noSchedule, taint.Key)
		case evictingTaint(taint):
			if taint.Key != execute {
				continue
			}
			has[taint.Key] = true
		}
		t.Want = append(t.Want, taint)
	}
	added := metav1.NewTime(now)
	for _, b := range append(slices.Clone(byCondition), unschedulable) {
		if noSchedule[b.taint] {
			t.Want = append(t.Want, corev1.Taint{Key: b.taint, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added})
			delete(noSchedule, b.taint)
		}
	}
	if execute != "" && !has[execute] {
		t.Evict = &corev1.Taint{Key: execute, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	}
	return t
}

// unschedulable makes the order of added taints complete.
var unschedulable = struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}{taint: corev1.TaintNodeUnschedulable}

func ours(taint string) bool {
	if taint == corev1.TaintNodeUnschedulable {
		return true
	}
	for _, b := range byCondition {
		if b.taint == taint {
			return true
		}
	}
	return false
}

// sameTaints compares lists by key, value and effect, in any order.
func sameTaints(a, b []corev1.Taint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !slices.ContainsFunc(b, func(t corev1.Taint) bool { return t.MatchTaint(&a[i]) && t.Value == a[i].Value }) {
			return false
		}
	}
	return true
}
