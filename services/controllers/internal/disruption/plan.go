// Package disruption keeps the status of disruption budgets: how many pods of each may go at the moment.
package disruption

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deletionTimeout is how long an evicted pod may take until its deletion is seen; then the eviction counts no more.
const deletionTimeout = 2 * time.Minute

// Scale returns how many pods a pod's controller wants, and which controller that is: a Deployment for its ReplicaSet; none ("") where it is gone.
// It fails where nobody can know.
type Scale func(owner *metav1.OwnerReference, namespace string) (uid types.UID, replicas int32, err error)

// Plan is what a budget's status should be.
type Plan struct {
	Status policyv1.PodDisruptionBudgetStatus
	// Recheck is when an eviction that nobody has followed up lapses; 0 is never.
	Recheck time.Duration
	// Unmanaged are pods that no controller would replace: they are not counted as expected.
	Unmanaged []string
	// Late are evicted pods that did not go.
	Late []*corev1.Pod
}

// Decide returns the status of a budget with the given pods.
func Decide(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, scale Scale, now time.Time) (Plan, error) {
	var p Plan
	expected, desired, err := p.expect(b, pods, scale)
	if err != nil {
		return p, err
	}
	disrupted := p.disrupted(b, pods, now)
	healthy := int32(0)
	for _, pod := range pods {
		if _, going := disrupted[pod.Name]; !going && pod.DeletionTimestamp == nil && ready(pod) {
			healthy++
		}
	}
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		allowed = 0
	}
	p.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation, DisruptedPods: disrupted, DisruptionsAllowed: allowed, CurrentHealthy: healthy,
		DesiredHealthy: desired, ExpectedPods: expected, Conditions: slices.Clone(b.Status.Conditions),
	}
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Generation,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if allowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&p.Status.Conditions, condition)
	return p, nil
}

// Failed is the status of a budget whose pods cannot be counted: nothing may go. The generation is not observed.
func Failed(b *policyv1.PodDisruptionBudget, why error, now time.Time) policyv1.PodDisruptionBudgetStatus {
	status := *b.Status.DeepCopy()
	status.DisruptionsAllowed = 0
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: why.Error(), ObservedGeneration: status.ObservedGeneration,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	return status
}

// Same reports whether a budget has the status already.
func Same(b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(b.Status, status)
}

// expect returns how many pods there should be, and how many of them healthy.
func (p *Plan) expect(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, scale Scale) (expected, desired int32, err error) {
	portion := func(of *intstr.IntOrString, whole int32) (int32, error) {
		n, err := intstr.GetScaledValueFromIntOrPercent(of, int(whole), true)
		return int32(n), err
	}
	switch most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable; {
	case most != nil:
		if expected, err = p.wanted(pods, scale); err != nil {
			return 0, 0, err
		}
		n, err := portion(most, expected)
		return expected, max(expected-n, 0), err
	case least == nil:
		return 0, 0, nil // nothing may go, as long as nothing is said
	case least.Type == intstr.Int:
		return int32(len(pods)), least.IntVal, nil
	default:
		if expected, err = p.wanted(pods, scale); err != nil {
			return 0, 0, err
		}
		desired, err = portion(least, expected)
		return expected, desired, err
	}
}

// wanted sums up what the pods' controllers want.
func (p *Plan) wanted(pods []*corev1.Pod, scale Scale) (int32, error) {
	counts := map[types.UID]int32{}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			p.Unmanaged = append(p.Unmanaged, pod.Name)
			continue
		}
		if _, known := counts[owner.UID]; known {
			continue
		}
		uid, n, err := scale(owner, pod.Namespace)
		if err != nil {
			return 0, err
		}
		if uid == "" {
			return 0, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		if uid != owner.UID {
			counts[owner.UID] = 0 // asked, and counted under another
		}
		counts[uid] = n
	}
	slices.Sort(p.Unmanaged)
	total := int32(0)
	for n := range maps.Values(counts) {
		total += n
	}
	return total, nil
}

// disrupted returns the evictions whose end is not seen yet.
func (p *Plan) disrupted(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) map[string]metav1.Time {
	var kept map[string]metav1.Time
	for _, pod := range pods {
		at, ok := b.Status.DisruptedPods[pod.Name]
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(deletionTimeout).Sub(now)
		if left <= 0 {
			p.Late = append(p.Late, pod)
			continue
		}
		if kept == nil {
			kept = map[string]metav1.Time{}
		}
		kept[pod.Name] = at
		if p.Recheck == 0 || left < p.Recheck {
			p.Recheck = left
		}
	}
	return kept
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
