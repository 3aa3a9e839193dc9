// Package replicaset keeps as many pods as a ReplicaSet asks for.
package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/pod"
)

// Observed is what a plan is made from.
type Observed struct {
	// Pods are the namespace's pods that the set controls or may adopt;
	// others are ignored.
	Pods []*corev1.Pod
	// Related are pods of sibling sets: they count where replicas are doubled up on a node.
	Related []*corev1.Pod
	// Settled says that the pods show all that earlier plans did. While they
	// do not, nothing is created or deleted: the same work would be done twice.
	Settled bool
}

// Failure is why replicas could not be created or deleted.
type Failure struct {
	Reason  string // FailedCreate or FailedDelete
	Message string
}

// Plan is what to do for one ReplicaSet.
type Plan struct {
	Adopt   []*corev1.Pod
	Release []*corev1.Pod
	Create  int
	Delete  []*corev1.Pod // in the order of deletion
	// Own are the pods that the set has, those to be adopted included.
	Own []*corev1.Pod
}

// Decide plans one ReplicaSet. It creates only what is missing from Pods,
// and only when they are settled.
func Decide(rs *appsv1.ReplicaSet, selector labels.Selector, seen Observed, now time.Time) Plan {
	claims := owner.Claim(rs, selector, seen.Pods)
	// A pod that has ended is not worth an adoption; it keeps its owner where it has one.
	claims.Adopt = slices.DeleteFunc(claims.Adopt, pod.Terminal)
	p := Plan{Adopt: claims.Adopt, Release: claims.Release, Own: slices.Concat(claims.Own, claims.Adopt)}
	if rs.DeletionTimestamp != nil || !seen.Settled {
		return p
	}
	var active []*corev1.Pod
	for _, o := range p.Own {
		if pod.Active(o) {
			active = append(active, o)
		}
	}
	switch want := int(replicas(rs)); {
	case len(active) < want:
		p.Create = want - len(active)
	case len(active) > want:
		p.Delete = rank(active, seen.Related, now)[:len(active)-want]
	}
	return p
}

// Status returns the status that the pods give the set at now, and when it
// will change by the mere passing of time (0: never).
func Status(rs *appsv1.ReplicaSet, own []*corev1.Pod, failure *Failure, now time.Time) (appsv1.ReplicaSetStatus, time.Duration) {
	s := *rs.Status.DeepCopy()
	s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas = 0, 0, 0, 0
	s.ObservedGeneration = rs.Generation
	var (
		terminating int32
		after       time.Duration
		template    = labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
		minReady    = time.Duration(rs.Spec.MinReadySeconds) * time.Second
	)
	for _, o := range own {
		if pod.Terminating(o) {
			terminating++
		}
		if !pod.Active(o) {
			continue
		}
		s.Replicas++
		if template.Matches(labels.Set(o.Labels)) {
			s.FullyLabeledReplicas++
		}
		if pod.Ready(o) {
			s.ReadyReplicas++
		}
		available, rest := pod.Available(o, minReady, now)
		if available {
			s.AvailableReplicas++
		}
		if rest > 0 && (after == 0 || rest < after) {
			after = rest
		}
	}
	s.TerminatingReplicas = &terminating
	s.Conditions = conditions(s.Conditions, failure, now)
	return s, after
}

// conditions keeps ReplicaFailure in step with the last attempt.
func conditions(had []appsv1.ReplicaSetCondition, failure *Failure, now time.Time) []appsv1.ReplicaSetCondition {
	i := slices.IndexFunc(had, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case failure == nil && i >= 0:
		return slices.Delete(slices.Clone(had), i, i+1)
	case failure != nil && (i < 0 || had[i].Status != corev1.ConditionTrue || had[i].Reason != failure.Reason):
		c := appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now), Reason: failure.Reason, Message: failure.Message,
		}
		if i >= 0 {
			had = slices.Delete(slices.Clone(had), i, i+1)
		}
		return append(slices.Clone(had), c)
	}
	return had
}

// changed says whether a status is worth a write.
func changed(old, new appsv1.ReplicaSetStatus) bool {
	return !apiequality.Semantic.DeepEqual(old, new)
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}
