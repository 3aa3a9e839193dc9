package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/controllers/internal/pod"
)

// Status returns the status that the pods give the set at now, and when it will change by the mere passing of time (0: never).
func Status(set *appsv1.StatefulSet, seen Observed, collisions int32, now time.Time) (appsv1.StatefulSetStatus, time.Duration) {
	s := appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, CollisionCount: &collisions, Conditions: set.Status.Conditions,
		CurrentRevision: seen.Current.Name, UpdateRevision: seen.Update.Name,
		CurrentReplicas: count(seen.Pods, seen.Current.Name), UpdatedReplicas: count(seen.Pods, seen.Update.Name),
	}
	var after time.Duration
	for _, p := range seen.Pods {
		if p.Status.Phase != "" {
			s.Replicas++
		}
		if p.Status.Phase != corev1.PodRunning || !pod.Ready(p) {
			continue
		}
		s.ReadyReplicas++
		available, rest := pod.Available(p, minReady(set), now)
		if available {
			s.AvailableReplicas++
		}
		if rest > 0 && (after == 0 || rest < after) {
			after = rest
		}
	}
	if updated(set, s) {
		s.CurrentRevision, s.CurrentReplicas = s.UpdateRevision, s.UpdatedReplicas
	}
	return s, after
}

// updated says whether a roll-out has come to its end: what was its goal is what the set has.
func updated(set *appsv1.StatefulSet, s appsv1.StatefulSetStatus) bool {
	want := int32(replicas(set))
	return set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		s.UpdatedReplicas == want && s.ReadyReplicas == want && s.Replicas == want
}

// count is how many pods of a revision there are, without those on their way out.
func count(pods []*corev1.Pod, revision string) int32 {
	var n int32
	for _, p := range pods {
		if p.Status.Phase != "" && p.DeletionTimestamp == nil && revisionOf(p) == revision {
			n++
		}
	}
	return n
}
