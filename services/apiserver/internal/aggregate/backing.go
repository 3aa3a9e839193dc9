package aggregate

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
)

// backing are the Services and EndpointSlices behind which extension API servers are.
type backing struct {
	services, slices *cache.Resource
	key              func(namespace, name string) string // of a Service
}

func newBacking(table *registry.Table, from *cache.Cache) backing {
	var b backing
	for _, k := range table.Kinds() {
		switch {
		case k.GVK.Group == "" && k.Resource == "services":
			b.services, b.key = from.For(k), k.Key
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
	if item := b.services.Get(b.key(ref.Namespace, ref.Name)); item != nil {
		parts = append(parts, fmt.Sprintf("service %d", item.Revision))
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

// service returns a Service; nil: there is none.
func (b backing) service(namespace, name string) *corev1.Service {
	if b.services == nil {
		return nil
	}
	item := b.services.Get(b.key(namespace, name))
	if item == nil {
		return nil
	}
	obj, err := item.Object()
	if err != nil {
		return nil
	}
	service, _ := obj.(*corev1.Service)
	return service
}

// host is the host and port of an APIService's server in URLs, as Kubernetes has it: the address of its Service, or the name for which that stands. A
// Service that is not there, or has no address, has its own name there.
func (b backing) host(s *apiregistrationv1.APIService) string {
	ref := s.Spec.Service
	name := ref.Name + "." + ref.Namespace + ".svc"
	if service := b.service(ref.Namespace, ref.Name); service != nil {
		switch spec := service.Spec; {
		case spec.Type == corev1.ServiceTypeExternalName:
			name = spec.ExternalName
		case spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone:
			name = spec.ClusterIP
		}
	}
	return net.JoinHostPort(name, strconv.Itoa(int(port(s))))
}

// endpoints returns the name of a Service's port, and whether it has any EndpointSlice.
func (b backing) endpoints(namespace, name string, port int32) (portName string, found bool) {
	if b.services == nil || b.slices == nil {
		return "", false
	}
	if service := b.service(namespace, name); service != nil {
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
