// Package deployment rolls a Deployment's pods from one template to the next
// by scaling its ReplicaSets.
package deployment

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Observed is what a plan is made from. Nothing in it is changed.
type Observed struct {
	// Sets are the ReplicaSets that the Deployment controls.
	Sets []*appsv1.ReplicaSet
	// Running says whether a set, by name, still has pods that have not ended;
	// Recreate waits for them.
	Running map[string]bool
}

// Plan is what to do for one Deployment. The writes to ReplicaSets go first,
// so that the status never tells of what has not been tried.
type Plan struct {
	Create *appsv1.ReplicaSet
	// Update are changed copies; each holds the resourceVersion it was made from.
	Update []*appsv1.ReplicaSet
	Delete []*appsv1.ReplicaSet
	// Revision is the Deployment's revision annotation; empty leaves it alone.
	Revision string
	Status   appsv1.DeploymentStatus
	Events   []Event
	// After is when to look again though nothing changes; 0 is never.
	After time.Duration
}

// Event is an event about the Deployment.
type Event struct{ Type, Reason, Message string }

// Decide plans one Deployment.
func Decide(d *appsv1.Deployment, seen Observed, now time.Time) Plan {
	r := newRollout(d, seen, now)
	switch {
	case d.DeletionTimestamp != nil:
		r.status = counts(r)
	case d.Spec.Paused:
		r.pauseConditions()
		r.stampRevision(false)
		r.resize()
		r.cleanUp()
		r.status = counts(r)
	case r.resized():
		r.pauseConditions()
		r.stampRevision(false)
		r.resize()
		r.status = counts(r)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		r.pauseConditions()
		r.recreate()
		r.status = progress(r)
	default:
		r.pauseConditions()
		r.roll()
		r.status = progress(r)
	}
	return r.finish()
}

// roll moves towards the new template within maxSurge and maxUnavailable.
func (r *rollout) roll() {
	r.stampRevision(true)
	r.scaleUpNew()
	r.scaleDownOld()
	if complete(r.d, &r.d.Status) {
		r.cleanUp()
	}
}

// recreate ends every old pod before the first new one is made.
func (r *rollout) recreate() {
	r.stampRevision(false)
	scaled := false
	for _, s := range r.old {
		if s.size() > 0 {
			r.scale(s, 0)
			scaled = true
		}
	}
	if scaled || r.oldRunning() {
		return
	}
	r.stampRevision(true)
	r.scale(r.new, want(r.d))
	if complete(r.d, &r.d.Status) {
		r.cleanUp()
	}
}

// oldRunning also asks what the old sets say of themselves: the Deployment's status counts by it, and must not tell of new pods beside old ones.
func (r *rollout) oldRunning() bool {
	for _, s := range r.old {
		if r.running[s.rs.Name] || s.rs.Status.Replicas > 0 {
			return true
		}
	}
	return false
}

// scaleUpNew brings the new set as near to the wanted size as maxSurge lets.
func (r *rollout) scaleUpNew() {
	switch size := r.new.size(); {
	case size > want(r.d):
		r.scale(r.new, want(r.d))
	case size < want(r.d):
		r.scale(r.new, r.newSize())
	}
}

// newSize is the size that the new set may have now.
func (r *rollout) newSize() int32 {
	var size int32
	if r.new != nil {
		size = r.new.size()
	}
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return want(r.d)
	}
	surge, _ := bounds(r.d)
	room := want(r.d) + surge - r.total()
	if room <= 0 {
		return size
	}
	return size + min(room, want(r.d)-size)
}

// scaleDownOld takes from the old sets what availability can spare: first
// pods that are not available anyway, then available ones.
func (r *rollout) scaleDownOld() {
	_, unavailable := bounds(r.d)
	least := want(r.d) - unavailable
	spare := r.total() - least - (r.new.size() - r.new.available())
	if spare <= 0 {
		return
	}
	taken := int32(0)
	for _, s := range r.old {
		sick := min(spare-taken, s.size()-s.available())
		if sick > 0 {
			r.scale(s, s.size()-sick)
			taken += sick
		}
	}
	// What is available now, old and new, bounds how many available pods may go.
	available := r.new.available()
	for _, s := range r.old {
		available += s.available()
	}
	spare = min(spare-taken, available-least)
	for _, s := range r.old {
		healthy := min(spare, s.size())
		if healthy > 0 {
			r.scale(s, s.size()-healthy)
			spare -= healthy
		}
	}
}

// scale sets a set's size and stamps what it was sized for.
func (r *rollout) scale(s *set, size int32) {
	if s.size() == size {
		return
	}
	direction := "up"
	if size < s.size() {
		direction = "down"
	}
	r.events = append(r.events, Event{corev1.EventTypeNormal, "ScalingReplicaSet",
		fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, s.rs.Name, s.size(), size)})
	s.edit().Spec.Replicas = &size
	r.stampSize(s)
}
