package device

import (
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
	if claim.Status.Allocation == nil || old.(*resourcev1.ResourceClaim).Status.Allocation != nil {
		return nil
	}
	var errs field.ErrorList
	for i, result := range claim.Status.Allocation.Devices.Results {
		if row.Deref(result.AdminAccess) {
			errs = append(errs, field.Forbidden(field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"), noAdmin))
		}
	}
	return errs
}

// validateTemplateIn is validateClaimIn for templates, which never change.
func validateTemplateIn(obj, old registry.Object, namespace map[string]string) field.ErrorList {
	if old != nil || namespace[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	return forbidAdmin(obj.(*resourcev1.ResourceClaimTemplate).Spec.Spec.Devices.Requests)
}

// forbidAdmin names requests as Kubernetes does, those of templates too.
func forbidAdmin(requests []resourcev1.DeviceRequest) field.ErrorList {
	var errs field.ErrorList
	for i, request := range requests {
		if request.Exactly != nil && row.Deref(request.Exactly.AdminAccess) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"), noAdmin))
		}
	}
	return errs
}
