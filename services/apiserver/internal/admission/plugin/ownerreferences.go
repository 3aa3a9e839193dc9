package plugin

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
)

// Kinds knows which resource is of a kind.
type Kinds interface {
	// ResourceOf returns the resource of a kind, and false where none is served.
	ResourceOf(gvk schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool)
}

// OwnerReferencesPermissionEnforcement lets only those change the owners of an object who may delete it, and only those have an
// owner's deletion wait for it who may set the owner's finalizers.
type OwnerReferencesPermissionEnforcement struct {
	Authorizer authz.Authorizer
	Kinds      Kinds
}

// Name implements admission.Plugin.
func (*OwnerReferencesPermissionEnforcement) Name() string {
	return "OwnerReferencesPermissionEnforcement"
}

// Handles implements admission.Plugin. A pod's status cannot change its owners.
func (*OwnerReferencesPermissionEnforcement) Handles(a *admission.Attributes) bool {
	return a.Object != nil && a.User != nil && (a.Operation == admission.Create && a.Subresource == "" || a.Operation == admission.Update) &&
		(!a.Is("", "pods") || a.Subresource != "status")
}

// Validate implements admission.Validator.
func (p *OwnerReferencesPermissionEnforcement) Validate(ctx context.Context, a *admission.Attributes) error {
	var before []metav1.OwnerReference
	if a.Old != nil {
		before = a.Old.GetOwnerReferences()
	}
	now := a.Object.GetOwnerReferences()
	if slices.EqualFunc(now, before, sameOwner) {
		return nil
	}
	if a.Operation == admission.Update {
		decision, reason, err := p.Authorizer.Authorize(ctx, &authz.Attributes{
			User: a.User, Verb: "delete", Group: a.Resource.GVR.Group, Version: a.Resource.GVR.Version, Resource: a.Resource.GVR.Resource,
			Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
		})
		if decision != authz.Allow {
			return a.Forbidden(fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
		}
	}
	for _, owner := range blocking(now) {
		if slices.ContainsFunc(blocking(before), func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			continue
		}
		if err := p.mayBlock(ctx, a, owner); err != nil {
			return err
		}
	}
	return nil
}

func (p *OwnerReferencesPermissionEnforcement) mayBlock(ctx context.Context, a *admission.Attributes, owner metav1.OwnerReference) error {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	gvr, namespaced, ok := p.Kinds.ResourceOf(gvk)
	if !ok {
		return a.Forbidden(fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %v Kind %v: no matches for kind %q in version %q",
			owner.APIVersion, owner.Kind, gvk.Kind, owner.APIVersion))
	}
	ask := &authz.Attributes{
		User: a.User, Verb: "update", Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Subresource: "finalizers", Name: owner.Name,
	}
	if namespaced {
		ask.Namespace = a.Namespace
	}
	decision, reason, err := p.Authorizer.Authorize(ctx, ask)
	if decision != authz.Allow {
		return a.Forbidden(fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err))
	}
	return nil
}

func blocking(owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.BlockOwnerDeletion == nil || !*o.BlockOwnerDeletion })
}

func sameOwner(a, b metav1.OwnerReference) bool {
	is := func(p *bool) bool { return p != nil && *p }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		is(a.Controller) == is(b.Controller) && is(a.BlockOwnerDeletion) == is(b.BlockOwnerDeletion)
}
