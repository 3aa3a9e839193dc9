package kind

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	netutils "k8s.io/utils/net"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func endpoints(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Endpoints"),
		Resource: "endpoints", Singular: "endpoints", ShortNames: []string{"ep"}, Namespaced: true,
		New:     func() registry.Object { return &corev1.Endpoints{} },
		NewList: func() runtime.Object { return &corev1.EndpointsList{} },

		Deprecated:     "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		CreateOnUpdate: true,
		Default: typed.Do(func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				for j := range e.Subsets[i].Ports {
					if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
						p.Protocol = corev1.ProtocolTCP
					}
				}
			}
		}),
		Validate: typed.Check(validateEndpoints),
		// What older versions took may stay, all of it.
		Ratchet: typed.CheckChange(func(e, old *corev1.Endpoints) field.ErrorList {
			errs := validateEndpoints(e)
			if len(errs) > 0 && equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
				return nil
			}
			return errs
		}),

		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.String("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), column.Age(),
		},
		Cells: typed.Get(func(e *corev1.Endpoints) []any {
			return []any{e.Name, endpointsText(e), column.Since(now(), e.CreationTimestamp.Time)}
		}),
	}
}

// endpointsText is the first three ready address:port pairs and how many more there are.
func endpointsText(e *corev1.Endpoints) string {
	const shown = 3
	var all []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				all = append(all, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	switch {
	case len(e.Subsets) == 0:
		return column.None
	case len(all) <= shown:
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	for i := range e.Subsets {
		s, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, validateEndpointAddress(&s.Addresses[j], path.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, validateEndpointAddress(&s.NotReadyAddresses[j], path.Child("notReadyAddresses").Index(j))...)
		}
		for j := range s.Ports {
			errs = append(errs, validateEndpointPort(&s.Ports[j], len(s.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateEndpointAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := utilvalidation.IsValidIPForLegacyField(path.Child("ip"), a.IP, true, nil)
	if a.Hostname != "" {
		errs = append(errs, check.Label(a.Hostname, path.Child("hostname"))...)
	}
	if a.NodeName != nil {
		errs = append(errs, check.Subdomain(*a.NodeName, path.Child("nodeName"))...)
	}
	if netutils.ParseIPSloppy(a.IP) != nil {
		return append(errs, check.PublicIP(a.IP, path.Child("ip"))...)
	}
	return append(errs, field.Invalid(path.Child("ip"), a.IP, "must be a valid IP address"))
}

func validateEndpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name != "":
		errs = append(errs, check.Label(p.Name, path.Child("name"))...)
	case named:
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, check.Port(p.Port, path.Child("port"))...)
	errs = append(errs, check.Choice(p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	if p.AppProtocol != nil {
		errs = append(errs, check.QualifiedName(*p.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}
