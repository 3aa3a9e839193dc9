package beta

import (
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/equality"
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
			GVK:     older,
			New:     func() registry.Object { return &resourcev1beta1.ResourceClaimTemplate{} },
			NewList: func() runtime.Object { return &resourcev1beta1.ResourceClaimTemplateList{} },
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
		if !equality.Semantic.DeepEqual(exactly, &resourcev1.ExactDeviceRequest{}) {
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
					if !equality.Semantic.DeepEqual(basic, &resourcev1beta1.BasicDevice{}) {
						out.Spec.Devices[i].Basic = basic
					}
				}
				out.SetGroupVersionKind(older)
				return out
			}),
			Deprecated: told(&resourcev1beta1.ResourceSlice{}, olderDevice),
		},
	}
}
