package bootstrap

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// astray says that what the Service kubernetes leads to is not what an API server writes that knows of these gateways. What is absent, or cannot be read now,
// is not astray.
func astray(ctx context.Context, api API, all []netip.AddrPort) bool {
	var e corev1.Endpoints
	var s discoveryv1.EndpointSlice
	return read(ctx, api, resource{version: "v1", resource: "endpoints"}, &e) && !leads(&e, all) ||
		read(ctx, api, resource{"discovery.k8s.io", "v1", "endpointslices"}, &s) && !sliceLeads(&s, all)
}

func read(ctx context.Context, api API, r resource, into any) bool {
	got, err := api.Get(ctx, &apiv1.GetRequest{Group: r.group, Version: r.version, Resource: r.resource, Namespace: metav1.NamespaceDefault, Name: name})
	return err == nil && json.Unmarshal(got.GetObject(), into) == nil
}

// leads says that these Endpoints are as an API server writes them for some of the gateways.
func leads(e *corev1.Endpoints, all []netip.AddrPort) bool {
	if len(e.Subsets) != 1 {
		return false
	}
	some := among(all, func(ip string) bool {
		return slices.ContainsFunc(e.Subsets[0].Addresses, func(a corev1.EndpointAddress) bool { return a.IP == ip })
	})
	return len(some) > 0 && equality.Semantic.DeepEqual(e.Subsets, endpoints(some).Subsets)
}

// sliceLeads says the same of a slice.
func sliceLeads(s *discoveryv1.EndpointSlice, all []netip.AddrPort) bool {
	some := among(all, func(ip string) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return slices.Equal(e.Addresses, []string{ip}) })
	})
	if len(some) == 0 {
		return false
	}
	want := slice(some)
	return equality.Semantic.DeepEqual(s.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(s.Ports, want.Ports)
}

func among(all []netip.AddrPort, has func(ip string) bool) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(all), func(g netip.AddrPort) bool { return !has(g.Addr().String()) })
}
