package device

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/registry"
)

const noAdmin = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"

// validateClaimIn lets only those claims have access as an administrator, to devices that others use, whose namespace is marked for that:
// new claims, and results of an allocation.
func validateClaimIn(obj, old registry.Object, namespace map[string]string) field.ErrorList {
	claim := obj.(*resourcev1.ResourceClaim)
	if namespace[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	if old == nil {
		return forbidAdmin(claim.Spec.Devices.Requests)
	}
	if administers(old.(*resourcev1.ResourceClaim)) >= 0 {
		return nil
	}
	if i := administers(claim); i >= 0 {
		return field.ErrorList{field.Forbidden(field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"), noAdmin)}
	}
	return nil
}

// administers returns the first allocated device that a claim administers; -1: there is none.
func administers(claim *resourcev1.ResourceClaim) int {
	if claim.Status.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(claim.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return row.Deref(r.AdminAccess) })
}

// validateTemplateIn is validateClaimIn for templates, which never change.
func validateTemplateIn(obj, old registry.Object, namespace map[string]string) field.ErrorList {
	if old != nil || namespace[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	return forbidAdmin(obj.(*resourcev1.ResourceClaimTemplate).Spec.Spec.Devices.Requests)
}

// forbidAdmin tells of the first request alone, by the name that Kubernetes has for it, also in templates.
func forbidAdmin(requests []resourcev1.DeviceRequest) field.ErrorList {
	for i, request := range requests {
		if request.Exactly != nil && row.Deref(request.Exactly.AdminAccess) {
			return field.ErrorList{field.Forbidden(field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"), noAdmin)}
		}
	}
	return nil
}
