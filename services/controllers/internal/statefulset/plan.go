// Package statefulset keeps the pods of StatefulSets: each with a name, an ordinal and claims of its own, never two of one ordinal, made and
// removed in order.
package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/controllers/internal/pod"
)

// Revision is a template and the name of the ControllerRevision that holds it.
type Revision struct {
	Name     string
	Template *corev1.PodTemplateSpec
}

// Observed is what a plan is made from.
type Observed struct {
	// Pods are the set's members, at most one an ordinal.
	Pods []*corev1.Pod
	// Claim returns the claim of a name in the set's namespace, nil where there is none.
	Claim func(name string) *corev1.PersistentVolumeClaim
	// Current is what the set's pods had before the latest change of its template, Update what they are to have.
	Current, Update Revision
	// Settled says that the pods show all that earlier plans did. While they do not, nothing is done.
	Settled bool
}

// Plan is what to do for one StatefulSet, part after part, until one of them fails.
type Plan struct {
	// End are pods that have ended: they make room for their successors.
	End []*corev1.Pod
	// Create are the pods that are made, in order, and Claims what has to be there before. Claims of pods that exist may be missing too.
	Create []*corev1.Pod
	Claims []Claim
	// Blocked are pods that have to wait for a claim's end.
	Blocked []Claim
	// Own are claims that get other owners.
	Own []Ownership
	// Contested are the names of claims that another controller has, so that the set's policy is not followed.
	Contested []string
	// Repair are pods that get their identity again.
	Repair []*corev1.Pod
	// Delete are pods that are too many or too old, in order.
	Delete []*corev1.Pod
}

// Claim is a claim and the pod that it is for.
type Claim struct {
	*corev1.PersistentVolumeClaim
	Pod string
}

// Ownership is a claim that is deleted with other objects from now on.
type Ownership struct {
	Claim  *corev1.PersistentVolumeClaim
	Owners []metav1.OwnerReference
}

// walk goes through a set's pods: first those that it wants, from the lowest ordinal up, then those that it does not, from
// the highest down, then again those that it wants, from the highest down, for newer ones. An ordered set stops at the first that it has to wait for.
type walk struct {
	set     *appsv1.StatefulSet
	seen    Observed
	now     time.Time
	ordered bool
	// replicas are the pods that are wanted, by their place from the start; nil is missing.
	replicas []*corev1.Pod
	// condemned are the others, highest ordinal first.
	condemned []*corev1.Pod
	plan      Plan
}

// Decide plans one StatefulSet.
func Decide(set *appsv1.StatefulSet, seen Observed, now time.Time) Plan {
	if set.DeletionTimestamp != nil || !seen.Settled {
		return Plan{}
	}
	w := newWalk(set, seen, now)
	if w.keep() && w.condemn() {
		w.renew()
	}
	return w.plan
}

func newWalk(set *appsv1.StatefulSet, seen Observed, now time.Time) *walk {
	w := &walk{
		set: set, seen: seen, now: now, ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		replicas: make([]*corev1.Pod, replicas(set)),
	}
	for _, p := range seen.Pods {
		ordinal := w.ordinal(p)
		if wanted(set, ordinal) {
			w.replicas[ordinal-start(set)] = p
		} else {
			w.condemned = append(w.condemned, p)
		}
	}
	slices.SortFunc(w.condemned, func(a, b *corev1.Pod) int { return w.ordinal(b) - w.ordinal(a) })
	return w
}

func (w *walk) ordinal(p *corev1.Pod) int {
	n, _ := ordinalOf(w.set, p.Name)
	return n
}

// keep makes the pods that are missing, and says whether the walk goes on to those that are too many.
func (w *walk) keep() bool {
	for place, p := range w.replicas {
		if !w.keepOne(place, p) && w.ordered {
			return false
		}
	}
	return true
}

// keepOne says whether a replica is as it should be, but for its revision.
func (w *walk) keepOne(place int, p *corev1.Pod) bool {
	switch {
	case p == nil:
		w.create(place)
		return false
	case pod.Terminal(p):
		// Evicted, lost with its node or merely done: the set wants it to run.
		if p.DeletionTimestamp == nil {
			w.plan.End = append(w.plan.End, p)
		}
		return false
	}
	if p.DeletionTimestamp != nil {
		return false
	}
	healthy := w.healthy(p)
	w.restore(p, healthy || !w.ordered)
	return healthy
}

// restore plans what a replica lacks of its identity and claims. A pending pod may be so for want of a claim; others have to be in turn.
func (w *walk) restore(p *corev1.Pod, inTurn bool) {
	ordinal, pending := w.ordinal(p), p.Status.Phase == corev1.PodPending
	if !pending && !inTurn {
		return
	}
	stored := stored(w.set, p, ordinal)
	if pending || !stored {
		missing, _ := w.claims(p, ordinal)
		w.plan.Claims = append(w.plan.Claims, missing...)
	}
	w.own(p, ordinal, false)
	if inTurn && !(stored && identified(p)) {
		w.plan.Repair = append(w.plan.Repair, p)
	}
}

// create plans the pod of a place, unless its claims are not yet to be had.
func (w *walk) create(place int) {
	ordinal := start(w.set) + place
	p := newPod(w.set, w.revision(place), ordinal)
	missing, ending := w.claims(p, ordinal)
	switch {
	case retention(w.set).whenScaled && w.leftover(ordinal, p, podKind):
		return
	case len(ending) > 0:
		w.plan.Blocked = append(w.plan.Blocked, ending...)
		return
	case w.leftover(ordinal, w.set, kind):
		return
	}
	w.plan.Claims = append(w.plan.Claims, missing...)
	for _, claim := range missing {
		if contested(w.set, p, claim.PersistentVolumeClaim) {
			w.plan.Contested = append(w.plan.Contested, claim.Name)
		}
	}
	w.own(p, ordinal, true)
	w.plan.Create = append(w.plan.Create, p)
}

// claims returns the claims of a pod that are missing, and those that are being deleted.
func (w *walk) claims(p *corev1.Pod, ordinal int) (missing, ending []Claim) {
	for i := range w.set.Spec.VolumeClaimTemplates {
		t := &w.set.Spec.VolumeClaimTemplates[i]
		switch had := w.seen.Claim(claimName(w.set, t.Name, ordinal)); {
		case had == nil:
			missing = append(missing, Claim{newClaim(w.set, t, ordinal), p.Name})
		case had.DeletionTimestamp != nil:
			ending = append(ending, Claim{had, p.Name})
		}
	}
	return missing, ending
}

// leftover says whether a claim is about to be deleted with a former object of the name, which has gone already: the pod's predecessor, or a set that was there
// before. The pod is made when the claim has gone too. What it wrote there would be lost.
func (w *walk) leftover(ordinal int, o metav1.Object, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(w.set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		had := w.seen.Claim(claimName(w.set, t.Name, ordinal))
		return had != nil && stale(had, o, kind)
	})
}

// own plans the owners of a pod's claims. That another controller has one is told when the pod is created, and where its owners change.
func (w *walk) own(p *corev1.Pod, ordinal int, created bool) {
	for i := range w.set.Spec.VolumeClaimTemplates {
		claim := w.seen.Claim(claimName(w.set, w.set.Spec.VolumeClaimTemplates[i].Name, ordinal))
		if claim == nil {
			continue
		}
		refs, changed := owners(w.set, p, ordinal, claim)
		if changed {
			w.plan.Own = append(w.plan.Own, Ownership{claim, refs})
		}
		if (changed || created) && contested(w.set, p, claim) {
			w.plan.Contested = append(w.plan.Contested, claim.Name)
		}
	}
}

// condemn deletes the pods that are too many, and says whether the walk goes on to newer ones. An ordered set has all that it wants
// by now, and deletes one at a time: a pod that is not available only where no lower one is waited for. One that has ended
// stops nobody, though: it would be waited for in vain.
func (w *walk) condemn() bool {
	lowestIll := -1
	for i, p := range w.condemned {
		w.own(p, w.ordinal(p), false)
		if p.DeletionTimestamp != nil || !w.available(p) {
			lowestIll = i
		}
	}
	for i, p := range w.condemned {
		if p.DeletionTimestamp == nil && (!w.ordered || w.healthy(p) || pod.Terminal(p) || i == lowestIll) {
			w.plan.Delete = append(w.plan.Delete, p)
		}
		if w.ordered {
			return false
		}
	}
	return true
}

// healthy says whether the pod runs, is ready, has been for long enough, and stays: others may follow it.
func (w *walk) healthy(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && w.available(p)
}

func (w *walk) available(p *corev1.Pod) bool {
	available, _ := pod.Available(p, minReady(w.set), w.now)
	return available
}

func minReady(set *appsv1.StatefulSet) time.Duration {
	return time.Duration(set.Spec.MinReadySeconds) * time.Second
}
