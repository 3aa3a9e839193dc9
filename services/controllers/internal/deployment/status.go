package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the Progressing condition.
const (
	reasonCreated   = "NewReplicaSetCreated"
	reasonFound     = "FoundNewReplicaSet"
	reasonUpdated   = "ReplicaSetUpdated"
	reasonAvailable = "NewReplicaSetAvailable"
	reasonTimedOut  = "ProgressDeadlineExceeded"
	reasonPaused    = "DeploymentPaused"
	reasonResumed   = "DeploymentResumed"
	reasonFailed    = "ReplicaSetCreateError"
)

// counts returns the status that the sets give, with the Available condition.
func counts(r *rollout) appsv1.DeploymentStatus {
	s := *r.d.Status.DeepCopy()
	s.ObservedGeneration = r.d.Generation
	s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas = 0, 0, 0, 0
	var asked, terminating int32
	known := true
	for _, x := range r.all() {
		asked += x.size()
		s.Replicas += x.rs.Status.Replicas
		s.ReadyReplicas += x.rs.Status.ReadyReplicas
		s.AvailableReplicas += x.rs.Status.AvailableReplicas
		if t := x.rs.Status.TerminatingReplicas; t != nil {
			terminating += *t
		} else if !x.created {
			known = false
		}
	}
	if r.new != nil {
		s.UpdatedReplicas = r.new.rs.Status.Replicas
	}
	s.UnavailableReplicas = max(0, asked-s.AvailableReplicas)
	s.TerminatingReplicas = nil
	if known {
		s.TerminatingReplicas = &terminating
	}
	_, unavailable := bounds(r.d)
	if s.AvailableReplicas >= want(r.d)-unavailable {
		r.set(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		r.set(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	s.Conditions = r.conditions
	return s
}

// progress returns the status with the Progressing and ReplicaFailure
// conditions as well.
func progress(r *rollout) appsv1.DeploymentStatus {
	s := counts(r)
	if !hasDeadline(r.d) {
		r.remove(appsv1.DeploymentProgressing)
	}
	current := r.condition(appsv1.DeploymentProgressing)
	done := current != nil && current.Reason == reasonAvailable && s.Replicas == s.UpdatedReplicas
	if hasDeadline(r.d) && !done {
		subject := fmt.Sprintf("Deployment %q", r.d.Name)
		if r.new != nil {
			subject = fmt.Sprintf("ReplicaSet %q", r.new.rs.Name)
		}
		switch {
		case complete(r.d, &s):
			r.setProgressing(corev1.ConditionTrue, reasonAvailable, subject+" has successfully progressed.")
		case moved(&r.d.Status, &s):
			r.touchProgressing(subject + " is progressing.")
		case timedOut(r.d, current, r.now):
			r.setProgressing(corev1.ConditionFalse, reasonTimedOut, subject+" has timed out progressing.")
		}
	}
	if failure := r.failure(); failure != nil {
		r.set(appsv1.DeploymentReplicaFailure, failure.Status, failure.Reason, failure.Message)
	} else {
		r.remove(appsv1.DeploymentReplicaFailure)
	}
	r.after = untilTimeout(r.d, &s, r.condition(appsv1.DeploymentProgressing), r.now)
	s.Conditions = r.conditions
	return s
}

// failure returns the new set's failure to make pods, else any old set's.
func (r *rollout) failure() *appsv1.ReplicaSetCondition {
	sets := r.old
	if r.new != nil {
		sets = append([]*set{r.new}, r.old...)
	}
	for _, s := range sets {
		for i := range s.rs.Status.Conditions {
			if s.rs.Status.Conditions[i].Type == appsv1.ReplicaSetReplicaFailure {
				return &s.rs.Status.Conditions[i]
			}
		}
	}
	return nil
}

// complete says whether every replica is of the new template and available.
func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	return s.UpdatedReplicas == want(d) && s.Replicas == want(d) && s.AvailableReplicas == want(d) &&
		s.ObservedGeneration >= d.Generation
}

// moved says whether the roll-out has come forward between two statuses.
func moved(old, new *appsv1.DeploymentStatus) bool {
	return new.UpdatedReplicas > old.UpdatedReplicas ||
		new.Replicas-new.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		new.ReadyReplicas > old.ReadyReplicas || new.AvailableReplicas > old.AvailableReplicas
}

func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func deadline(d *appsv1.Deployment) time.Duration {
	return time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second
}

// timedOut says whether the roll-out has made no progress for too long. One
// that was resumed has all its time again.
func timedOut(d *appsv1.Deployment, c *appsv1.DeploymentCondition, now time.Time) bool {
	if c == nil || c.Reason == reasonAvailable {
		return false
	}
	return c.Reason == reasonTimedOut || now.Sub(c.LastUpdateTime.Time) > deadline(d)
}

// untilTimeout is when to look whether the deadline has passed; 0 is never.
func untilTimeout(d *appsv1.Deployment, s *appsv1.DeploymentStatus, c *appsv1.DeploymentCondition, now time.Time) time.Duration {
	if !hasDeadline(d) || c == nil || complete(d, s) || c.Reason == reasonTimedOut || c.Reason == reasonPaused {
		return 0
	}
	// Times in the API have whole seconds: one more makes sure that it has passed.
	return max(c.LastUpdateTime.Add(deadline(d)).Sub(now), 0) + time.Second
}

// pauseConditions notes that the roll-out stopped or went on, so that the
// time of a pause does not count against the deadline.
func (r *rollout) pauseConditions() {
	if !hasDeadline(r.d) {
		return
	}
	c := r.condition(appsv1.DeploymentProgressing)
	if c != nil && c.Reason == reasonTimedOut {
		return
	}
	switch paused := c != nil && c.Reason == reasonPaused; {
	case r.d.Spec.Paused && !paused:
		r.setProgressing(corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	case !r.d.Spec.Paused && paused:
		r.setProgressing(corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	}
}

func (r *rollout) condition(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range r.conditions {
		if r.conditions[i].Type == kind {
			return &r.conditions[i]
		}
	}
	return nil
}

func (r *rollout) setProgressing(status corev1.ConditionStatus, reason, message string) {
	r.set(appsv1.DeploymentProgressing, status, reason, message)
}

// touchProgressing notes progress: the update time moves on even where the
// condition already said so, because the deadline counts from there.
func (r *rollout) touchProgressing(message string) {
	since := metav1.NewTime(r.now)
	if c := r.condition(appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionTrue {
		since = c.LastTransitionTime
	}
	r.remove(appsv1.DeploymentProgressing)
	r.conditions = append(r.conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonUpdated, Message: message,
		LastUpdateTime: metav1.NewTime(r.now), LastTransitionTime: since,
	})
}

// set puts a condition, unless it says the same already; the transition time
// moves only with the status.
func (r *rollout) set(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	since := metav1.NewTime(r.now)
	if c := r.condition(kind); c != nil {
		if c.Status == status && c.Reason == reason {
			return
		}
		if c.Status == status {
			since = c.LastTransitionTime
		}
	}
	r.remove(kind)
	r.conditions = append(r.conditions, appsv1.DeploymentCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastUpdateTime: metav1.NewTime(r.now), LastTransitionTime: since,
	})
}

func (r *rollout) remove(kind appsv1.DeploymentConditionType) {
	r.conditions = slices.DeleteFunc(r.conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}
