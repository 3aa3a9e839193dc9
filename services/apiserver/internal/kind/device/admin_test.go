package device

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestAdminAccessTakesAMarkedNamespace(t *testing.T) {
	t.Parallel()
	yes := true
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{}}, {Name: "b", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: &yes}},
	}}}
	claim := &resourcev1.ResourceClaim{Spec: spec}
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}
	allocated := &resourcev1.ResourceClaim{Spec: spec, Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{AdminAccess: &yes}}},
	}}}
	for _, label := range []string{"", "false"} {
		namespace := map[string]string{resourcev1.DRAAdminNamespaceLabelKey: label}
		errs := append(validateClaimIn(claim, nil, namespace), validateTemplateIn(template, nil, namespace)...)
		if len(errs) != 2 || errs[0].Field != "spec.devices.requests[1].adminAccess" || errs[1].Field != errs[0].Field {
			t.Errorf("%q: %v", label, errs)
		}
		if errs := validateClaimIn(allocated, claim, namespace); len(errs) != 1 || errs[0].Field != "status.allocation.devices.results[0].adminAccess" {
			t.Errorf("%q: %v", label, errs)
		}
		if errs := validateClaimIn(allocated, allocated, namespace); len(errs) > 0 {
			t.Errorf("what is allocated stays: %v", errs)
		}
	}
	marked := map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}
	if errs := append(validateClaimIn(claim, nil, marked), validateTemplateIn(template, nil, marked)...); len(errs) > 0 {
		t.Error(errs)
	}
}
