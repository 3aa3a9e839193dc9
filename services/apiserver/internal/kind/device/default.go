package device

import (
	resourcev1 "k8s.io/api/resource/v1"
)

func fillClaim(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			fillMode(&e.AllocationMode, &e.Count)
			fillTolerations(e.Tolerations)
		}
		for n := range r.FirstAvailable {
			sub := &r.FirstAvailable[n]
			fillMode(&sub.AllocationMode, &sub.Count)
			fillTolerations(sub.Tolerations)
		}
	}
}

// fillMode makes one device the default.
func fillMode(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func fillTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}

func fillStatus(s *resourcev1.ResourceClaimStatus) {
	if s.Allocation == nil {
		return
	}
	for i := range s.Allocation.Devices.Results {
		fillTolerations(s.Allocation.Devices.Results[i].Tolerations)
	}
}
