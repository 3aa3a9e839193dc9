package beta

import (
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

var (
	oldNetworking = networkingv1beta1.SchemeGroupVersion
	extensions    = extensionsv1beta1.SchemeGroupVersion
)

// ingress is networking.k8s.io/v1beta1: its backends name a service and a port
// in two fields, and the type of a path may be left out.
func ingress() registry.Version {
	return registry.Version{
		GVK:        oldNetworking.WithKind("Ingress"),
		New:        func() registry.Object { return &networkingv1beta1.Ingress{} },
		NewList:    func() runtime.Object { return &networkingv1beta1.IngressList{} },
		Default:    typed.Do(fillIngress),
		ToStored:   typed.Convert(storedIngress),
		FromStored: typed.Convert(servedIngress),
		Deprecated: warning(&networkingv1beta1.Ingress{}, oldNetworking, networkingv1.SchemeGroupVersion),
	}
}

// extensionsIngress is extensions/v1beta1, which has the fields of networking.k8s.io/v1beta1.
func extensionsIngress() registry.Version {
	return registry.Version{
		GVK:     extensions.WithKind("Ingress"),
		New:     func() registry.Object { return &extensionsv1beta1.Ingress{} },
		NewList: func() runtime.Object { return &extensionsv1beta1.IngressList{} },
		Default: typed.Do(func(i *extensionsv1beta1.Ingress) {
			middle := &networkingv1beta1.Ingress{}
			recast.Into(i, middle)
			fillIngress(middle)
			recast.Into(middle, i)
		}),
		ToStored: typed.Convert(func(in *extensionsv1beta1.Ingress) *networkingv1.Ingress {
			middle := &networkingv1beta1.Ingress{}
			recast.Into(in, middle)
			return storedIngress(middle)
		}),
		FromStored: typed.Convert(func(in *networkingv1.Ingress) *extensionsv1beta1.Ingress {
			out := &extensionsv1beta1.Ingress{}
			recast.Into(servedIngress(in), out)
			out.SetGroupVersionKind(extensions.WithKind("Ingress"))
			return out
		}),
		Deprecated: warning(&extensionsv1beta1.Ingress{}, extensions, networkingv1.SchemeGroupVersion),
	}
}

func fillIngress(i *networkingv1beta1.Ingress) {
	for r := range i.Spec.Rules {
		if http := i.Spec.Rules[r].HTTP; http != nil {
			for p := range http.Paths {
				if http.Paths[p].PathType == nil {
					kind := networkingv1beta1.PathTypeImplementationSpecific
					http.Paths[p].PathType = &kind
				}
			}
		}
	}
}

func storedIngress(in *networkingv1beta1.Ingress) *networkingv1.Ingress {
	out := &networkingv1.Ingress{}
	recast.Into(in, out)
	out.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	out.Spec.DefaultBackend = storedBackend(in.Spec.Backend)
	for r := range in.Spec.Rules {
		if http := in.Spec.Rules[r].HTTP; http != nil {
			for p := range http.Paths {
				if b := storedBackend(&http.Paths[p].Backend); b != nil {
					out.Spec.Rules[r].HTTP.Paths[p].Backend = *b
				}
			}
		}
	}
	return out
}

func storedBackend(in *networkingv1beta1.IngressBackend) *networkingv1.IngressBackend {
	if in == nil {
		return nil
	}
	out := &networkingv1.IngressBackend{Resource: in.Resource}
	if in.ServiceName == "" && in.ServicePort == (intstr.IntOrString{}) {
		return out
	}
	out.Service = &networkingv1.IngressServiceBackend{Name: in.ServiceName}
	if in.ServicePort.Type == intstr.String {
		out.Service.Port.Name = in.ServicePort.StrVal
	} else {
		out.Service.Port.Number = in.ServicePort.IntVal
	}
	return out
}

func servedIngress(in *networkingv1.Ingress) *networkingv1beta1.Ingress {
	out := &networkingv1beta1.Ingress{}
	recast.Into(in, out)
	out.SetGroupVersionKind(oldNetworking.WithKind("Ingress"))
	out.Spec.Backend = servedBackend(in.Spec.DefaultBackend)
	for r := range in.Spec.Rules {
		if http := in.Spec.Rules[r].HTTP; http != nil {
			for p := range http.Paths {
				out.Spec.Rules[r].HTTP.Paths[p].Backend = *servedBackend(&http.Paths[p].Backend)
			}
		}
	}
	return out
}

func servedBackend(in *networkingv1.IngressBackend) *networkingv1beta1.IngressBackend {
	if in == nil {
		return nil
	}
	out := &networkingv1beta1.IngressBackend{Resource: in.Resource}
	if s := in.Service; s != nil {
		out.ServiceName = s.Name
		if s.Port.Name != "" {
			out.ServicePort = intstr.FromString(s.Port.Name)
		} else {
			out.ServicePort = intstr.FromInt32(s.Port.Number)
		}
	}
	return out
}
