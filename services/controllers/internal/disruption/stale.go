package disruption

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	pods "howdah.dev/services/controllers/internal/pod"
)

// staleAfter is how long a pod may be said to be about to go, and not go, until that is taken back.
const staleAfter = 2 * time.Minute

// isStale reports whether a pod that does not go is said to be about to. What its node says of it holds however long it takes, and one that has
// ended keeps why.
func isStale(p *corev1.Pod) bool {
	c := pods.Condition(p, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet &&
		p.DeletionTimestamp == nil && !pods.Terminal(p)
}

// Reset returns the status of a pod that was not disrupted after all; nil, and when to look again (0 is never), where nothing is to be said.
func Reset(p *corev1.Pod, now time.Time) (status *corev1.PodStatus, after time.Duration) {
	if !isStale(p) {
		return nil, 0
	}
	status = p.Status.DeepCopy()
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != corev1.DisruptionTarget {
			continue
		}
		if left := c.LastTransitionTime.Add(staleAfter).Sub(now); left > 0 {
			return nil, left
		}
		*c = corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now)}
	}
	return status, 0
}

// reset takes back that a pod is about to go.
func (c *disruption) reset(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok {
		return 0, nil
	}
	status, after := Reset(p, c.clock.Now())
	if status == nil {
		return after, nil
	}
	updated := *p
	updated.Status = *status
	if _, err := object.For(c.client, object.Pod).UpdateStatus(ctx, &updated); err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	return 0, nil
}
