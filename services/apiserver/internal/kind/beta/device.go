package beta

import (
	"reflect"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

var (
	device      = resourcev1.SchemeGroupVersion
	newerDevice = resourcev1beta2.SchemeGroupVersion
	olderDevice = resourcev1beta1.SchemeGroupVersion
)

func deviceClasses() []registry.Version {
	return []registry.Version{
		same[resourcev1beta2.DeviceClass, resourcev1beta2.DeviceClassList, resourcev1.DeviceClass](newerDevice, device),
		same[resourcev1beta1.DeviceClass, resourcev1beta1.DeviceClassList, resourcev1.DeviceClass](olderDevice, device),
	}
}

func resourceClaims() []registry.Version {
	older := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceClaim")
	return []registry.Version{
		same[resourcev1beta2.ResourceClaim, resourcev1beta2.ResourceClaimList, resourcev1.ResourceClaim](newerDevice, device),
		{
			GVK:     older,
			New:     func() registry.Object { return &resourcev1beta1.ResourceClaim{} },
			NewList: func() runtime.Object { return &resourcev1beta1.ResourceClaimList{} },
			Default: typed.Do(func(c *resourcev1beta1.ResourceClaim) {
				defaultRequests(c.Spec.Devices.Requests)
				if a := c.Status.Allocation; a != nil {
					for i := range a.Devices.Results {
						defaultTolerations(a.Devices.Results[i].Tolerations)
					}
				}
			}),
			Defaulted: true,
			ToStored: typed.Convert(func(in *resourcev1beta1.ResourceClaim) *resourcev1.ResourceClaim {
				out := &resourcev1.ResourceClaim{}
				recast.Into(in, out)
				out.Spec.Devices.Requests = requestsToStored(in.Spec.Devices.Requests)
				out.SetGroupVersionKind(device.WithKind("ResourceClaim"))
				return out
			}),
			FromStored: typed.Convert(func(in *resourcev1.ResourceClaim) *resourcev1beta1.ResourceClaim {
				out := &resourcev1beta1.ResourceClaim{}
				recast.Into(in, out)
				out.Spec.Devices.Requests = requestsFromStored(in.Spec.Devices.Requests)
				out.SetGroupVersionKind(older)
				return out
			}),
			Deprecated: told(&resourcev1beta1.ResourceClaim{}, olderDevice),
		},
	}
}

func resourceClaimTemplates() []registry.Version {
	older := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
	return []registry.Version{
		same[resourcev1beta2.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplateList, resourcev1.ResourceClaimTemplate](newerDevice, device),
		{
			GVK:       older,
			New:       func() registry.Object { return &resourcev1beta1.ResourceClaimTemplate{} },
			NewList:   func() runtime.Object { return &resourcev1beta1.ResourceClaimTemplateList{} },
			Default:   typed.Do(func(t *resourcev1beta1.ResourceClaimTemplate) { defaultRequests(t.Spec.Spec.Devices.Requests) }),
			Defaulted: true,
			ToStored: typed.Convert(func(in *resourcev1beta1.ResourceClaimTemplate) *resourcev1.ResourceClaimTemplate {
				out := &resourcev1.ResourceClaimTemplate{}
				recast.Into(in, out)
				out.Spec.Spec.Devices.Requests = requestsToStored(in.Spec.Spec.Devices.Requests)
				out.SetGroupVersionKind(device.WithKind("ResourceClaimTemplate"))
				return out
			}),
			FromStored: typed.Convert(func(in *resourcev1.ResourceClaimTemplate) *resourcev1beta1.ResourceClaimTemplate {
				out := &resourcev1beta1.ResourceClaimTemplate{}
				recast.Into(in, out)
				out.Spec.Spec.Devices.Requests = requestsFromStored(in.Spec.Spec.Devices.Requests)
				out.SetGroupVersionKind(older)
				return out
			}),
			Deprecated: told(&resourcev1beta1.ResourceClaimTemplate{}, olderDevice),
		},
	}
}

// defaultRequests leaves open how many devices a request wants that names no class: it may be a choice among several. If it is none it is
// refused, for this too.
func defaultRequests(list []resourcev1beta1.DeviceRequest) {
	for i := range list {
		r := &list[i]
		if r.DeviceClassName != "" {
			defaultMode(&r.AllocationMode, &r.Count)
		}
		defaultTolerations(r.Tolerations)
		for n := range r.FirstAvailable {
			defaultMode(&r.FirstAvailable[n].AllocationMode, &r.FirstAvailable[n].Count)
			defaultTolerations(r.FirstAvailable[n].Tolerations)
		}
	}
}

func defaultMode(mode *resourcev1beta1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1beta1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1beta1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(list []resourcev1beta1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1beta1.DeviceTolerationOpEqual
		}
	}
}

// requestsToStored gives each request that is not a choice among several the one that v1beta1 has in the request itself.
func requestsToStored(in []resourcev1beta1.DeviceRequest) []resourcev1.DeviceRequest {
	if in == nil {
		return nil
	}
	out := make([]resourcev1.DeviceRequest, len(in))
	for i := range in {
		recast.Into(&in[i], &out[i])
		exactly := &resourcev1.ExactDeviceRequest{}
		recast.Into(&in[i], exactly)
		if !reflect.ValueOf(*exactly).IsZero() { // an empty list is something
			out[i].Exactly = exactly
		}
	}
	return out
}

func requestsFromStored(in []resourcev1.DeviceRequest) []resourcev1beta1.DeviceRequest {
	if in == nil {
		return nil
	}
	out := make([]resourcev1beta1.DeviceRequest, len(in))
	for i := range in {
		if in[i].Exactly != nil {
			recast.Into(in[i].Exactly, &out[i])
		}
		recast.Into(&in[i], &out[i])
	}
	return out
}

func resourceSlices() []registry.Version {
	older := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceSlice")
	return []registry.Version{
		same[resourcev1beta2.ResourceSlice, resourcev1beta2.ResourceSliceList, resourcev1.ResourceSlice](newerDevice, device),
		{
			GVK:     older,
			New:     func() registry.Object { return &resourcev1beta1.ResourceSlice{} },
			NewList: func() runtime.Object { return &resourcev1beta1.ResourceSliceList{} },
			ToStored: typed.Convert(func(in *resourcev1beta1.ResourceSlice) *resourcev1.ResourceSlice {
				out := &resourcev1.ResourceSlice{}
				recast.Into(in, out)
				for i := range in.Spec.Devices { // v1beta1 has what is known of a device a level deeper
					if basic := in.Spec.Devices[i].Basic; basic != nil {
						recast.Into(basic, &out.Spec.Devices[i])
					}
				}
				out.SetGroupVersionKind(device.WithKind("ResourceSlice"))
				return out
			}),
			FromStored: typed.Convert(func(in *resourcev1.ResourceSlice) *resourcev1beta1.ResourceSlice {
				out := &resourcev1beta1.ResourceSlice{}
				recast.Into(in, out)
				for i := range in.Spec.Devices {
					basic := &resourcev1beta1.BasicDevice{}
					recast.Into(&in.Spec.Devices[i], basic)
					out.Spec.Devices[i].Basic = basic // even if it says nothing, as with Kubernetes
				}
				out.SetGroupVersionKind(older)
				return out
			}),
			Deprecated: told(&resourcev1beta1.ResourceSlice{}, olderDevice),
		},
	}
}
