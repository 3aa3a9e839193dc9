// Package owner decides which objects belong to a controller: what its
// selector and the objects' controller references say together.
package owner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Claims sorts objects by what the owner must do with them. No slice shares
// an object with another.
type Claims[T metav1.Object] struct {
	Own     []T // controlled by the owner and selected
	Adopt   []T // selected orphans: take them
	Release []T // controlled by the owner but no longer selected: let go
}

// Claim sorts the objects. An owner that is being deleted neither adopts nor
// releases; an object that is being deleted is not adopted.
func Claim[T metav1.Object](owner metav1.Object, selector labels.Selector, objects []T) Claims[T] {
	var c Claims[T]
	leaving := owner.GetDeletionTimestamp() != nil
	for _, o := range objects {
		ref := metav1.GetControllerOfNoCopy(o)
		selected := selector.Matches(labels.Set(o.GetLabels()))
		switch {
		case ref != nil && ref.UID == owner.GetUID():
			if selected || leaving {
				c.Own = append(c.Own, o)
			} else {
				c.Release = append(c.Release, o)
			}
		case ref == nil && selected && !leaving && o.GetDeletionTimestamp() == nil:
			c.Adopt = append(c.Adopt, o)
		}
	}
	return c
}

// Live reads an owner past the cache.
type Live func(ctx context.Context) (metav1.Object, error)

// MayAdopt fails where the owner is being deleted or was replaced, which the cache may not know yet: such a one adopts nothing.
func MayAdopt(ctx context.Context, owner metav1.Object, live Live) error {
	now, err := live(ctx)
	if err != nil {
		return fmt.Errorf("check before adoption: %w", err)
	}
	if now.GetUID() != owner.GetUID() || now.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s/%s is being deleted: it adopts nothing", owner.GetNamespace(), owner.GetName())
	}
	return nil
}

// AdoptPatch returns the merge patch that makes owner the object's
// controller, and gives it the finalizers. A reference to the owner that is
// there and does not control becomes the one that does. It holds only for the
// object as it was seen.
func AdoptPatch(owner metav1.Object, kind schema.GroupVersionKind, o metav1.Object, finalizers ...string) ([]byte, error) {
	refs := slices.Clone(o.GetOwnerReferences())
	ref := *metav1.NewControllerRef(owner, kind)
	if n := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }); n >= 0 {
		refs[n] = ref
	} else {
		refs = append(refs, ref)
	}
	had := o.GetFinalizers()
	missing := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return slices.Contains(had, f) })
	return refsPatch(o, refs, slices.Concat(had, missing))
}

// ReleasePatch returns the merge patch that removes the owner's reference,
// and the finalizers. It holds only for the object as it was seen.
func ReleasePatch(owner types.UID, o metav1.Object, finalizers ...string) ([]byte, error) {
	refs := []metav1.OwnerReference{}
	for _, ref := range o.GetOwnerReferences() {
		if ref.UID != owner {
			refs = append(refs, ref)
		}
	}
	left := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return slices.Contains(finalizers, f) })
	return refsPatch(o, refs, left)
}

// RefsPatch returns the merge patch that gives the object these owner references.
// It pins uid and resourceVersion, so that a patch computed from a stale copy
// fails instead of undoing someone else's change.
func RefsPatch(o metav1.Object, refs []metav1.OwnerReference) ([]byte, error) {
	return refsPatch(o, refs, o.GetFinalizers())
}

// refsPatch is RefsPatch that changes the finalizers, too, where these are others.
func refsPatch(o metav1.Object, refs []metav1.OwnerReference, finalizers []string) ([]byte, error) {
	metadata := map[string]any{
		"uid":             o.GetUID(),
		"resourceVersion": o.GetResourceVersion(),
		"ownerReferences": refs,
	}
	if len(finalizers) != len(o.GetFinalizers()) {
		metadata["finalizers"] = finalizers
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encode owner references of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return patch, nil
}
