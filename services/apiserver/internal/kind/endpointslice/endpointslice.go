// Package endpointslice is the kind EndpointSlice.
package endpointslice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		Resource: "endpointslices", Singular: "endpointslice", Namespaced: true,
		New:     func() registry.Object { return &discoveryv1.EndpointSlice{} },
		NewList: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },

		Default: typed.Do(fill),
		PrepareCreate: typed.Do(func(s *discoveryv1.EndpointSlice) {
			s.Generation = 1
			dropTopology(s)
		}),
		// A slice has no spec: its generation counts what proxies care for.
		PrepareUpdate: typed.Change(func(s, old *discoveryv1.EndpointSlice) {
			s.Generation = old.Generation
			same := sameEndpoints(s.Endpoints, old.Endpoints)
			if !same || !equality.Semantic.DeepEqual(s.Ports, old.Ports) || !equality.Semantic.DeepEqual(s.Labels, old.Labels) || s.AddressType != old.AddressType {
				s.Generation++
			}
			if !same {
				dropTopology(s)
			}
		}),
		ValidateCreate: typed.Check(validate),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		Warnings:       typed.Warn(warnings),

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.String("AddressType", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]),
			column.String("Ports", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"]),
			column.String("Endpoints", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"]),
			column.Age(),
		},
		Cells: typed.Get(func(s *discoveryv1.EndpointSlice) []any {
			return []any{
				s.Name, string(s.AddressType), ports(s.Ports), addresses(s.Endpoints),
				column.Since(now(), s.CreationTimestamp.Time),
			}
		}),
	}
}

// sameEndpoints compares them one by one: of all at once the library would remember each part that it has seen.
func sameEndpoints(a, b []discoveryv1.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y discoveryv1.Endpoint) bool { return equality.Semantic.DeepEqual(x, y) })
}

// dropTopology drops what only a removed version had, where endpoints are new or change.
func dropTopology(s *discoveryv1.EndpointSlice) {
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

func warnings(s, old *discoveryv1.EndpointSlice) []string {
	if s.AddressType != discoveryv1.AddressTypeFQDN {
		return nil // other addresses are as they should be
	}
	var list []string
	if old == nil {
		list = append(list, "spec.addressType: FQDN endpoints are deprecated")
	}
	for i, e := range s.Endpoints {
		for j, a := range e.Addresses {
			if netutils.ParseIPSloppy(a) != nil {
				list = append(list, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
			}
		}
	}
	return list
}

func fill(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		if s.Ports[i].Name == nil {
			s.Ports[i].Name = new(string)
		}
		if s.Ports[i].Protocol == nil {
			tcp := corev1.ProtocolTCP
			s.Ports[i].Protocol = &tcp
		}
	}
}

const shown = 3

func ports(list []discoveryv1.EndpointPort) string {
	var all []string
	for _, p := range list {
		if p.Port == nil {
			name := "*"
			if p.Name != nil {
				name = *p.Name
			}
			all = append(all, name)
			continue
		}
		all = append(all, strconv.Itoa(int(*p.Port)))
	}
	return firstOf(all)
}

func addresses(list []discoveryv1.Endpoint) string {
	var all []string
	for _, e := range list {
		all = append(all, e.Addresses...)
	}
	return firstOf(all)
}

func firstOf(all []string) string {
	if len(all) <= shown {
		return column.Or(strings.Join(all, ","), "<unset>")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:shown], ","), len(all)-shown)
}
