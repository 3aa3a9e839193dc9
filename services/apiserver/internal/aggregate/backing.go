package aggregate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
)

// backing are the Services and EndpointSlices behind which extension API servers are.
type backing struct{ services, slices *cache.Resource }

func newBacking(table *registry.Table, from *cache.Cache) backing {
	var b backing
	for _, k := range table.Kinds() {
		switch {
		case k.GVK.Group == "" && k.Resource == "services":
			b.services = from.For(k)
		case k.GVK.Group == discoveryv1.GroupName && k.Resource == "endpointslices":
			b.slices = from.For(k)
		}
	}
	return b
}

// of identifies the state of what is behind an APIService: it changes with its Service and with that one's endpoints.
func (b backing) of(s *apiregistrationv1.APIService) string {
	ref := s.Spec.Service
	if ref == nil || b.services == nil || b.slices == nil {
		return ""
	}
	var parts []string
	for _, item := range b.services.List(cache.Query{Namespace: ref.Namespace}).Items {
		if item.Name == ref.Name {
			parts = append(parts, fmt.Sprintf("service %d", item.Revision))
		}
	}
	for _, item := range b.slices.List(cache.Query{Namespace: ref.Namespace}).Items {
		obj, err := item.Object()
		if err == nil && obj.GetLabels()[discoveryv1.LabelServiceName] == ref.Name {
			parts = append(parts, fmt.Sprintf("%s %d", item.Name, item.Revision))
		}
	}
	slices.Sort(parts)
	return fmt.Sprint(parts)
}

// endpoints returns the name of a Service's port, and whether it has any EndpointSlice.
func (b backing) endpoints(namespace, name string, port int32) (portName string, found bool) {
	if b.services == nil || b.slices == nil {
		return "", false
	}
	for _, item := range b.services.List(cache.Query{Namespace: namespace}).Items {
		obj, err := item.Object()
		service, ok := obj.(*corev1.Service)
		if err != nil || !ok || item.Name != name {
			continue
		}
		for _, p := range service.Spec.Ports {
			if p.Port == port {
				portName = p.Name
			}
		}
	}
	for _, item := range b.slices.List(cache.Query{Namespace: namespace}).Items {
		obj, err := item.Object()
		found = found || err == nil && obj.GetLabels()[discoveryv1.LabelServiceName] == name
	}
	return portName, found
}
