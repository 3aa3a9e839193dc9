package garbage

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerState is what is known of an owner that an object refers to.
type ownerState int

const (
	// present owners keep their dependents.
	present ownerState = iota
	// absent owners are known for sure not to exist.
	absent
	// waiting owners are being deleted in the foreground: their dependents go first.
	waiting
	// invalid references name a namespaced owner of a cluster-scoped object.
	// They are reported, and their object is left as it is, whatever becomes of its owners.
	invalid
)

// action is what to do with one object.
type action struct {
	// Delete says to delete it with the policy.
	Delete bool
	Policy metav1.DeletionPropagation
	// Drop are the owners to take off its references, where it stays.
	Drop []types.UID
	// Unblock says to clear blockOwnerDeletion first: it waits in a circle.
	Unblock bool
}

// decide plans one object from the states of its owners, in the order of its
// references. blockedCircle says that one of its own dependents waits in the
// foreground too. An object is deleted only if no owner is left.
func decide(meta *metav1.PartialObjectMetadata, owners []ownerState, hasDependents, blockedCircle bool) action {
	var kept, dropped int
	var a action
	foreground := false
	for i, s := range owners {
		switch s {
		case invalid:
			return action{}
		case present:
			kept++
		case waiting:
			foreground = true
			fallthrough
		case absent:
			dropped++
			a.Drop = append(a.Drop, meta.OwnerReferences[i].UID)
		}
	}
	switch {
	case dropped == 0:
		return action{}
	case kept > 0:
		return a
	case meta.DeletionTimestamp != nil:
		return action{} // it is on its way already
	}
	a.Drop, a.Delete = nil, true
	switch {
	case foreground && hasDependents:
		a.Policy, a.Unblock = metav1.DeletePropagationForeground, blockedCircle
	case slices.Contains(meta.Finalizers, metav1.FinalizerOrphanDependents):
		a.Policy = metav1.DeletePropagationOrphan
	case slices.Contains(meta.Finalizers, metav1.FinalizerDeleteDependents):
		a.Policy = metav1.DeletePropagationForeground
	default:
		a.Policy = metav1.DeletePropagationBackground
	}
	return a
}

// blocks says whether a dependent keeps the owner's foreground deletion from ending.
func blocks(dependent *metav1.PartialObjectMetadata, owner types.UID) bool {
	for _, ref := range dependent.OwnerReferences {
		if ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			return true
		}
	}
	return false
}

// blocksAny says whether the object keeps any owner's foreground deletion from ending.
func blocksAny(meta *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(meta.OwnerReferences, func(ref metav1.OwnerReference) bool { return blocks(meta, ref.UID) })
}

// without returns the references but those to the owners.
func without(refs []metav1.OwnerReference, owners []types.UID) []metav1.OwnerReference {
	kept := []metav1.OwnerReference{}
	for _, ref := range refs {
		if !slices.Contains(owners, ref.UID) {
			kept = append(kept, ref)
		}
	}
	return kept
}

// unblocked returns the references with none that blocks its owner's deletion.
func unblocked(refs []metav1.OwnerReference) []metav1.OwnerReference {
	kept := slices.Clone(refs)
	for i := range kept {
		kept[i].BlockOwnerDeletion = nil
	}
	return kept
}
