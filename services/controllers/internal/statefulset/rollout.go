package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/controllers/internal/pod"
)

// revision is that of a pod that is made for a place: pods below the partition keep to the current one. Without a partition those
// do whose place a roll-out, which goes from the top down, has not come to.
func (w *walk) revision(place int) Revision {
	strategy := w.set.Spec.UpdateStrategy
	old := 0
	switch {
	case strategy.RollingUpdate != nil:
		old = w.partition()
	case strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType:
		old = int(count(w.seen.Pods, w.seen.Current.Name))
	}
	if place < old {
		return w.seen.Current
	}
	return w.seen.Update
}

// partition is how many places, from the lowest up, a roll-out leaves alone.
func (w *walk) partition() int {
	r := w.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.Partition == nil {
		return 0
	}
	return int(*r.Partition)
}

// renew deletes pods of other revisions, from the highest ordinal down, for newer ones to be made.
func (w *walk) renew() {
	if w.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return // by whoever deletes a pod
	}
	if r := w.set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		w.renewWithin(maxUnavailable(*r.MaxUnavailable, len(w.replicas)))
		return
	}
	// One at a time: a pod that is not available is waited for, unless it is an old one itself.
	for place := len(w.replicas) - 1; place >= w.partition(); place-- {
		p := w.replicas[place]
		switch {
		case p != nil && w.outdated(p):
			w.plan.Delete = append(w.plan.Delete, p)
			return
		case p == nil || p.DeletionTimestamp != nil || !w.available(p):
			return
		}
	}
}

// renewWithin deletes as many pods as may be unavailable beside those that are.
func (w *walk) renewWithin(most int) {
	most -= w.unavailable()
	for place := len(w.replicas) - 1; place >= w.partition() && most > 0; place-- {
		if p := w.replicas[place]; p != nil && w.outdated(p) {
			w.plan.Delete = append(w.plan.Delete, p)
			most--
		}
	}
}

// unavailable counts the wanted pods that are missing, going or not available.
func (w *walk) unavailable() (n int) {
	for _, p := range w.replicas {
		if p == nil || p.DeletionTimestamp != nil || !w.available(p) {
			n++
		}
	}
	return n
}

// outdated says whether the pod is to be deleted for a newer one. One that has ended is on its way out already.
func (w *walk) outdated(p *corev1.Pod) bool {
	return revisionOf(p) != w.seen.Update.Name && pod.Active(p)
}

// maxUnavailable is at least 1, or nothing would ever be updated; percentages are rounded down.
func maxUnavailable(n intstr.IntOrString, replicas int) int {
	most, err := intstr.GetScaledValueFromIntOrPercent(&n, replicas, false)
	if err != nil {
		return 1 // validation refuses it
	}
	return max(most, 1)
}

// revisionOf is the name of the revision that a pod was made from.
func revisionOf(p *corev1.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }
