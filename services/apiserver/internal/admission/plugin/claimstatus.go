package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// ResourceClaimStatus divides who may write a claim's status: to allocate and reserve takes permission for resourceclaims/binding, and to tell
// of a driver's devices permission for resourceclaims/driver with the driver's name, of any node or of the account's own. With Kubernetes it is
// part of the kind, and cannot be switched off: so it is here, though it stands in the admission chain, which knows who writes.
type ResourceClaimStatus struct{ Authorizer authz.Authorizer }

// Name implements admission.Plugin.
func (*ResourceClaimStatus) Name() string { return "ResourceClaimStatus" }

// Handles implements admission.Plugin.
func (*ResourceClaimStatus) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Update && a.Subresource == "status" && a.Is(resourcev1.GroupName, "resourceclaims")
}

// Validate implements admission.Validator.
func (p *ResourceClaimStatus) Validate(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*resourcev1.ResourceClaim)
	old, was := a.Old.(*resourcev1.ResourceClaim)
	if !ok || !was {
		return nil
	}
	verb := "update"
	if a.Patch {
		verb = "patch"
	}
	var errs field.ErrorList
	now, before := &claim.Status, &old.Status
	if !equality.Semantic.DeepEqual(now.Allocation, before.Allocation) || !equality.Semantic.DeepEqual(now.ReservedFor, before.ReservedFor) {
		if err := p.refusal(ctx, a, &authz.Attributes{Verb: verb, Subresource: resourcev1.SubresourceBinding}); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "allocation"),
				fmt.Sprintf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, verb, err)))
		}
	}
	if now.Allocation != nil { // else there are no devices to tell of
		errs = append(errs, p.drivers(ctx, a, verb, now, before)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(a.Resource.Kind.GVK.GroupKind(), old.Name, errs)
}

// drivers asks for each driver of whose devices something else is told than before.
func (p *ResourceClaimStatus) drivers(ctx context.Context, a *admission.Attributes, verb string, now, before *resourcev1.ResourceClaimStatus) field.ErrorList {
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + verb}
	if onNode(a.User, allocatedNode(now.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + verb, verbs[0]}
	}
	var errs field.ErrorList
	for _, driver := range changedDrivers(now.Devices, before.Devices) {
		var refused error
		for _, verb := range verbs { // one of them is enough, and the first is told
			err := p.refusal(ctx, a, &authz.Attributes{Verb: verb, Subresource: resourcev1.SubresourceDriver, Namespace: a.Namespace, Name: driver})
			if err == nil {
				refused = nil
				break
			}
			if refused == nil {
				refused = err
			}
		}
		if refused != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"),
				fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, refused)))
		}
	}
	return errs
}

// refusal is why the user may not; nil: who may.
func (p *ResourceClaimStatus) refusal(ctx context.Context, a *admission.Attributes, want *authz.Attributes) error {
	want.User, want.Group, want.Version, want.Resource = a.User, resourcev1.GroupName, a.Resource.GVK.Version, "resourceclaims"
	return authz.Require(ctx, p.Authorizer, want)
}

// changedDrivers are, in order, the drivers of devices that came, went or changed.
func changedDrivers(now, before []resourcev1.AllocatedDeviceStatus) []string {
	key := func(d *resourcev1.AllocatedDeviceStatus) [4]string {
		share := ""
		if d.ShareID != nil {
			share = *d.ShareID
		}
		return [4]string{d.Driver, d.Pool, d.Device, share}
	}
	gone := map[[4]string]*resourcev1.AllocatedDeviceStatus{}
	for i := range before {
		gone[key(&before[i])] = &before[i]
	}
	drivers := map[string]bool{}
	for i := range now {
		d := &now[i]
		old, was := gone[key(d)]
		delete(gone, key(d))
		if !was || !equality.Semantic.DeepEqual(old, d) {
			drivers[d.Driver] = true
		}
	}
	for _, d := range gone {
		drivers[d.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// allocatedNode is the one node where what is allocated can be used; empty: there are others, or it is not told by the node's name.
func allocatedNode(a *resourcev1.AllocationResult) string {
	if a == nil || a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// onNode reports a service account whose token is of a pod on that node.
func onNode(user *authn.User, node string) bool {
	if node == "" || user == nil {
		return false
	}
	if _, _, account := authn.SplitServiceAccountName(user.Name); !account {
		return false
	}
	nodes := user.Extra[authn.NodeNameKey]
	return len(nodes) == 1 && nodes[0] == node && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0
}
