// Package networking has the kinds of networking.k8s.io.
package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

var gv = networkingv1.SchemeGroupVersion

// Kinds returns the kinds of the group; now is the clock for ages.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{ingress(now), ingressClass(now), policy(now), serviceCIDR(now), ipAddress(now)}
}

func ingressClass(now func() time.Time) *registry.Kind {
	type class = networkingv1.IngressClass
	k := row.Of[class, networkingv1.IngressClassList](gv, "ingressclasses")
	row.Spec(k, func(c *class) *networkingv1.IngressClassSpec { return &c.Spec })
	k.Default = typed.Do(func(c *class) {
		if c.Spec.Parameters != nil {
			row.Set(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	})
	// An update tells first what it must not change.
	k.ValidateCreate = typed.Check(validateClass)
	k.ValidateUpdate = typed.CheckChange(func(c, old *class) field.ErrorList {
		errs := check.Same(c.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
		return append(errs, validateClass(c)...)
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Controller", "Controller that is responsible for handling this class"),
		column.String("Parameters", "A reference to a resource with additional parameters"), column.Age(),
	}
	k.Cells = typed.Get(func(c *class) []any {
		text := column.None
		if p := c.Spec.Parameters; p != nil {
			text = p.Kind
			if g := row.Deref(p.APIGroup); g != "" {
				text += "." + g
			}
			text += "/" + p.Name
		}
		return []any{c.Name, c.Spec.Controller, text, column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

const longestController = 250

func validateClass(c *networkingv1.IngressClass) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if n := len(c.Spec.Controller); n > longestController {
		errs = append(errs, field.TooLong(path.Child("controller"), c.Spec.Controller, longestController))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path.Child("controller"), c.Spec.Controller)...)
	p, path := c.Spec.Parameters, path.Child("parameters")
	if p == nil {
		return errs
	}
	errs = append(errs, validateReference(p.APIGroup, p.Kind, p.Name, path)...)
	switch row.Deref(p.Scope) {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			errs = append(errs, field.Required(path.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
		} else {
			errs = append(errs, check.Label(*p.Namespace, path.Child("namespace"))...)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(path.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
		}
	default:
		errs = append(errs, check.OneOf(row.Deref(p.Scope), path.Child("scope"),
			networkingv1.IngressClassParametersReferenceScopeNamespace, networkingv1.IngressClassParametersReferenceScopeCluster)...)
	}
	return errs
}

// validateReference checks what names an object of some kind.
func validateReference(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, check.Subdomain(*group, path.Child("apiGroup"))...)
	}
	errs = append(errs, segment(kind, path.Child("kind"))...)
	return append(errs, segment(name, path.Child("name"))...)
}

// segment wants a text that fits into a URL.
func segment(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Each(pathvalidation.IsValidPathSegmentName(text), text, path)
}

func serviceCIDR(now func() time.Time) *registry.Kind {
	type cidr = networkingv1.ServiceCIDR
	k := row.Of[cidr, networkingv1.ServiceCIDRList](gv, "servicecidrs")
	row.SpecStatusUncounted(k, func(c *cidr) *networkingv1.ServiceCIDRSpec { return &c.Spec },
		func(c *cidr) *networkingv1.ServiceCIDRStatus { return &c.Status }, nil)
	row.KeepMeta(k)
	k.ValidateCreate = typed.Check(func(c *cidr) field.ErrorList { return validateCIDRs(&c.Spec) })
	k.ValidateUpdate = typed.CheckChange(func(c, old *cidr) field.ErrorList { return validateCIDRsUpdate(&c.Spec, old.Spec.CIDRs) })
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), column.Age(),
	}
	k.Cells = typed.Get(func(c *cidr) []any {
		return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

func validateCIDRs(spec *networkingv1.ServiceCIDRSpec) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	if len(spec.CIDRs) == 0 {
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	}
	if len(spec.CIDRs) > 2 {
		return field.ErrorList{field.Invalid(path, *spec, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, text := range spec.CIDRs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), text)...)
	}
	if len(spec.CIDRs) == 2 {
		if dual, err := netutils.IsDualStackCIDRStrings(spec.CIDRs); err == nil && !dual {
			errs = append(errs, field.Invalid(path, spec.CIDRs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateCIDRsUpdate lets a second family be added, and nothing else.
func validateCIDRsUpdate(spec *networkingv1.ServiceCIDRSpec, old []string) field.ErrorList {
	path := field.NewPath("spec", "cidrs")
	grows := len(old) == 1 && len(spec.CIDRs) == 2
	if len(old) != len(spec.CIDRs) && !grows {
		return field.ErrorList{field.Invalid(path, spec.CIDRs, check.Immutable)}
	}
	var errs field.ErrorList
	for i, text := range old {
		if spec.CIDRs[i] != text {
			errs = append(errs, field.Invalid(path.Index(i), spec.CIDRs[i], check.Immutable))
		}
	}
	if grows {
		errs = append(errs, validateCIDRs(spec)...)
	}
	return errs
}

func ipAddress(now func() time.Time) *registry.Kind {
	type address = networkingv1.IPAddress
	k := row.Of[address, networkingv1.IPAddressList](gv, "ipaddresses")
	k.ShortNames = []string{"ip"}
	k.NameIsValid = func(name string, _ bool) []string {
		var texts []string
		for _, e := range validation.IsValidIP(nil, name) {
			texts = append(texts, e.Detail)
		}
		return texts
	}
	k.Validate = typed.Check(func(a *address) field.ErrorList {
		path := field.NewPath("spec", "parentRef")
		p := a.Spec.ParentRef
		if p == nil {
			return field.ErrorList{field.Required(path, "")}
		}
		var errs field.ErrorList
		if p.Group != "" {
			errs = append(errs, check.Subdomain(p.Group, path.Child("group"))...)
		}
		errs = append(errs, segment(p.Resource, path.Child("resource"))...)
		errs = append(errs, segment(p.Name, path.Child("name"))...)
		if p.Namespace != "" {
			errs = append(errs, segment(p.Namespace, path.Child("namespace"))...)
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(a, old *address) field.ErrorList {
		return check.Same(a.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
	}
	k.Cells = typed.Get(func(a *address) []any {
		text := column.None
		if p := a.Spec.ParentRef; p != nil {
			parts := []string{p.Resource}
			if p.Group != "" {
				parts[0] += "." + p.Group
			}
			parts[0] = strings.ToLower(parts[0])
			if p.Namespace != "" {
				parts = append(parts, p.Namespace)
			}
			text = strings.Join(append(parts, p.Name), "/")
		}
		return []any{a.Name, text, column.Since(now(), a.CreationTimestamp.Time)} // of the age no column is told
	})
	return k
}
