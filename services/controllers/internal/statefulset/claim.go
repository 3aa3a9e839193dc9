package statefulset

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// claimName is the name of the claim that a template gives the pod of an ordinal.
func claimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return template + "-" + podName(set, ordinal)
}

// hasClaim says whether a claim of the name is one of the set's pods'.
func hasClaim(set *appsv1.StatefulSet, name string) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		pod, ok := strings.CutPrefix(name, set.Spec.VolumeClaimTemplates[i].Name+"-")
		if !ok {
			continue
		}
		if _, ok := ordinalOf(set, pod); ok {
			return true
		}
	}
	return false
}

// newClaim returns the claim that a template gives the pod of an ordinal, with the owners that it should have.
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	c := template.DeepCopy()
	c.Namespace, c.Name = set.Namespace, claimName(set, template.Name, ordinal)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, set.Spec.Selector.MatchLabels)
	// A template may name another controller, beside which the API takes none.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(set, ordinal)}}
	if wanted(set, ordinal) && retention(set).goesWithSet(true) && !contested(set, pod, c) {
		c.OwnerReferences = append(c.OwnerReferences, *metav1.NewControllerRef(set, kind))
	}
	return c
}

// policy is when claims are deleted.
type policy struct{ whenDeleted, whenScaled bool }

func retention(set *appsv1.StatefulSet) policy {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return policy{}
	}
	return policy{
		whenDeleted: p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		whenScaled:  p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
}

// goesWithSet says whether the claim of a pod that is wanted, or is not, is deleted with the set.
func (p policy) goesWithSet(wanted bool) bool { return p.whenDeleted && (wanted || !p.whenScaled) }

// goesWithPod says whether the claim of a pod that is wanted, or is not, is deleted with the pod.
func (p policy) goesWithPod(wanted bool) bool { return p.whenScaled && !wanted }

// refersTo says whether a reference is to an object of that kind and name, whichever its uid.
func refersTo(ref metav1.OwnerReference, o metav1.Object, kind schema.GroupVersionKind) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == o.GetName()
}

// stale says whether the claim is owned by a former object of that kind and name. The garbage collector is about to take it.
func stale(claim *corev1.PersistentVolumeClaim, o metav1.Object, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return refersTo(ref, o, kind) && ref.UID != o.GetUID()
	})
}

// contested says whether another controller has the claim, so that the policy cannot be followed. Where nothing is ever deleted, it matters not.
func contested(set *appsv1.StatefulSet, p *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if retention(set) == (policy{}) {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Controller != nil && *ref.Controller && !refersTo(ref, set, kind) && !refersTo(ref, p, podKind)
	})
}

// owners returns the owner references that the claim of a pod should have by the set's policy, and whether that is a change.
func owners(set *appsv1.StatefulSet, p *corev1.Pod, ordinal int, claim *corev1.PersistentVolumeClaim) (refs []metav1.OwnerReference, changed bool) {
	if stale(claim, set, kind) || stale(claim, p, podKind) {
		return claim.OwnerReferences, false
	}
	withSet, withPod := false, false
	if !contested(set, p, claim) {
		is := wanted(set, ordinal)
		withSet, withPod = retention(set).goesWithSet(is), retention(set).goesWithPod(is)
	}
	if belongs(claim.OwnerReferences, set, withSet) && belongs(claim.OwnerReferences, p, withPod) {
		return claim.OwnerReferences, false
	}
	refs = []metav1.OwnerReference{}
	for _, ref := range claim.OwnerReferences {
		if ref.UID != set.UID && ref.UID != p.UID {
			refs = append(refs, ref)
		}
	}
	if withSet {
		refs = append(refs, *metav1.NewControllerRef(set, kind))
	}
	if withPod {
		refs = append(refs, *metav1.NewControllerRef(p, podKind))
	}
	return refs, true
}

// belongs says whether the owners of a claim have the object among them as its controller where it should be, and else not at all.
func belongs(owners []metav1.OwnerReference, o metav1.Object, should bool) bool {
	i := slices.IndexFunc(owners, func(ref metav1.OwnerReference) bool { return ref.UID == o.GetUID() })
	if i < 0 || !should {
		return i < 0 && !should
	}
	controls := owners[i].Controller
	return controls != nil && *controls
}
