package queue

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
)

// Event is why a pod came to where it waits, by the label that Kubernetes 1.36 has for it.
type Event string

// What the queue does by itself.
const (
	Failed    Event = "ScheduleAttemptFailure"
	BackedOff Event = "BackoffComplete"
	Hastened  Event = "PopFromBackoffQ"
	TimedOut  Event = "UnschedulableTimeout"
)

// What happens to pods that have a node, and to those that have none.
const (
	AssignedPodAdd       Event = "AssignedPodAdd"
	AssignedPodUpdate    Event = "AssignedPodUpdate"
	AssignedPodDelete    Event = "AssignedPodDelete"
	AssignedPodLabel     Event = "AssignedPodUpdatePodLabel"
	AssignedPodScaleDown Event = "AssignedPodUpdatePodScaleDown"

	PodAdd        Event = "UnschedulablePodAdd"
	PodUpdate     Event = "UnschedulablePodUpdate"
	PodDelete     Event = "UnschedulablePodDelete"
	podLabel      Event = "UnschedulablePodUpdatePodLabel"
	podScaleDown  Event = "UnschedulablePodUpdatePodScaleDown"
	podToleration Event = "UnschedulablePodUpdatePodToleration"
	podClaim      Event = "UnschedulablePodUpdatePodGeneratedResourceClaim"
	podUngated    Event = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
)

// The plugins of Kubernetes that keep pods from being tried at all.
const (
	gates  = "SchedulingGates"
	claims = "DynamicResources"
)

// Move is a way into where pods wait.
type Move struct {
	Event Event
	To    State
}

// Blame is what keeps a pod waiting: the plugins by which it was refused in its last attempt, or that keep it from any.
type Blame struct{ Scheduler, Plugins string }

// Moves returns how often pods went which way since the process began.
func (q *Queue) Moves() map[Move]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.moved)
}

// Blames returns how many pods wait for what.
func (q *Queue) Blames() map[Blame]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	blames := map[Blame]int{}
	for _, item := range q.items {
		switch {
		case item.held:
			blames[Blame{item.Pod.Spec.SchedulerName, claims}]++
		case item.blamed != "" && !item.taken:
			blames[Blame{item.Pod.Spec.SchedulerName, item.blamed}]++
		}
	}
	for _, scheduler := range q.gated {
		blames[Blame{scheduler, gates}]++
	}
	return blames
}

// count notes that a pod went somewhere. No event is a pod that stays where it was.
func (q *Queue) count(event Event, to State) {
	if event != "" {
		q.moved[Move{event, to}]++
	}
}

// ChangeOf is what has changed of a waiting pod.
func ChangeOf(was, is *corev1.Pod) Event {
	switch {
	case !maps.Equal(was.Labels, is.Labels):
		return podLabel
	case smaller(was, is):
		return podScaleDown
	case len(was.Spec.Tolerations) != len(is.Spec.Tolerations):
		return podToleration
	case !equality.Semantic.DeepEqual(was.Status.ResourceClaimStatuses, is.Status.ResourceClaimStatuses) ||
		!equality.Semantic.DeepEqual(was.Status.ExtendedResourceClaimStatus, is.Status.ExtendedResourceClaimStatus):
		return podClaim
	}
	return PodUpdate
}

// smaller reports whether a pod requests less of anything than it did.
func smaller(was, is *corev1.Pod) bool {
	now := resource.PodRequests(is, resource.PodResourcesOptions{})
	for name, before := range resource.PodRequests(was, resource.PodResourcesOptions{}) {
		if amount := now[name]; amount.Cmp(before) < 0 {
			return true
		}
	}
	return false
}
