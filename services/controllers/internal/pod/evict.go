package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// Evict says in a pod's condition DisruptionTarget why it goes, and deletes it. tell is called between the two. It reports whether it was this call
// that ended the pod: false where it was gone, or is another by now.
func Evict(ctx context.Context, client *object.Client, p *corev1.Pod, reason, message string, now time.Time, tell func()) (bool, error) {
	pods := object.For(client, object.Pod)
	disrupted := p.DeepCopy()
	condition := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	if SetCondition(disrupted, condition, now) {
		if _, err := pods.UpdateStatus(ctx, disrupted); err != nil {
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return false, fmt.Errorf("mark pod as disrupted: %w", err)
		}
	}
	tell()
	err := pods.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("evict pod: %w", err)
	}
	return true, nil
}

// Disrupted reports whether a pod has been told that it goes because of a disruption.
func Disrupted(p *corev1.Pod) bool {
	c := Condition(p, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue
}
