package beta

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// slice is discovery.k8s.io/v1beta1, which has an endpoint's zone among the labels of its topology.
func slice() registry.Version {
	gv := discoveryv1beta1.SchemeGroupVersion
	return registry.Version{
		GVK:     gv.WithKind("EndpointSlice"),
		New:     func() registry.Object { return &discoveryv1beta1.EndpointSlice{} },
		NewList: func() runtime.Object { return &discoveryv1beta1.EndpointSliceList{} },
		ToStored: typed.Convert(func(in *discoveryv1beta1.EndpointSlice) *discoveryv1.EndpointSlice {
			out := &discoveryv1.EndpointSlice{}
			recast.Into(in, out)
			for i := range in.Endpoints {
				topology := maps.Clone(in.Endpoints[i].Topology)
				if zone, ok := topology[corev1.LabelTopologyZone]; ok {
					out.Endpoints[i].Zone = &zone
					delete(topology, corev1.LabelTopologyZone)
				}
				out.Endpoints[i].DeprecatedTopology = topology
			}
			out.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
			return out
		}),
		FromStored: typed.Convert(func(in *discoveryv1.EndpointSlice) *discoveryv1beta1.EndpointSlice {
			out := &discoveryv1beta1.EndpointSlice{}
			recast.Into(in, out)
			for i, e := range in.Endpoints {
				topology := maps.Clone(e.DeprecatedTopology)
				if e.Zone != nil {
					if topology == nil {
						topology = map[string]string{}
					}
					topology[corev1.LabelTopologyZone] = *e.Zone
				}
				out.Endpoints[i].Topology = topology
			}
			out.SetGroupVersionKind(gv.WithKind("EndpointSlice"))
			return out
		}),
		Deprecated: warning(&discoveryv1beta1.EndpointSlice{}, gv, discoveryv1.SchemeGroupVersion),
	}
}
