// Package networking has the kinds of networking.k8s.io.
package networking

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
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
	k.Validate = typed.Check(validateClass)
	k.ValidateUpdate = typed.CheckChange(func(c, old *class) field.ErrorList {
		return check.Same(c.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
	})
	doc := networkingv1.IngressClassSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Controller", doc["controller"]), column.String("Parameters", doc["parameters"]), column.Age(),
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
	if g := p.APIGroup; g != nil {
		errs = append(errs, check.Subdomain(*g, path.Child("apiGroup"))...)
	}
	for _, f := range []struct{ name, value string }{{"kind", p.Kind}, {"name", p.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		}
	}
	switch row.Deref(p.Scope) {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if row.Deref(p.Namespace) == "" {
			errs = append(errs, field.Required(path.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
		} else {
			errs = append(errs, check.Label(*p.Namespace, path.Child("namespace"))...)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(path.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
		}
	default:
		errs = append(errs, check.Choice(row.Deref(p.Scope), path.Child("scope"),
			networkingv1.IngressClassParametersReferenceScopeNamespace, networkingv1.IngressClassParametersReferenceScopeCluster)...)
	}
	return errs
}

func serviceCIDR(now func() time.Time) *registry.Kind {
	type cidr = networkingv1.ServiceCIDR
	k := row.Of[cidr, networkingv1.ServiceCIDRList](gv, "servicecidrs")
	row.SpecStatus(k, func(c *cidr) *networkingv1.ServiceCIDRSpec { return &c.Spec },
		func(c *cidr) *networkingv1.ServiceCIDRStatus { return &c.Status }, nil)
	k.Validate = typed.Check(func(c *cidr) field.ErrorList {
		path := field.NewPath("spec", "cidrs")
		if len(c.Spec.CIDRs) == 0 {
			return field.ErrorList{field.Required(path, "at least one CIDR required")}
		}
		if len(c.Spec.CIDRs) > 2 {
			return field.ErrorList{field.Invalid(path, c.Spec, "may only hold up to 2 values")}
		}
		var errs field.ErrorList
		for i, text := range c.Spec.CIDRs {
			errs = append(errs, canonical(text, path.Index(i))...)
		}
		if len(c.Spec.CIDRs) == 2 && strings.Contains(c.Spec.CIDRs[0], ":") == strings.Contains(c.Spec.CIDRs[1], ":") {
			errs = append(errs, field.Invalid(path, c.Spec, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96"))
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(c, old *cidr) field.ErrorList {
		return check.Same(c.Spec.CIDRs, old.Spec.CIDRs, field.NewPath("spec", "cidrs"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]), column.Age(),
	}
	k.Cells = typed.Get(func(c *cidr) []any {
		return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

// canonical wants a network as "10.96.0.0/16": an address without bits of hosts.
func canonical(text string, path *field.Path) field.ErrorList {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")}
	}
	if want := p.Masked().String(); want != text {
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("must be in canonical form (%q)", want))}
	}
	return nil
}

func ipAddress(now func() time.Time) *registry.Kind {
	type address = networkingv1.IPAddress
	k := row.Of[address, networkingv1.IPAddressList](gv, "ipaddresses")
	k.ShortNames = []string{"ip"}
	k.NameIsValid = func(name string, _ bool) []string {
		ip, err := netip.ParseAddr(name)
		if err != nil {
			return []string{"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"}
		}
		if ip.String() != name {
			return []string{fmt.Sprintf("must be in canonical form (%q)", ip.String())}
		}
		return nil
	}
	row.Spec(k, func(a *address) *networkingv1.IPAddressSpec { return &a.Spec })
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
		for _, f := range []struct{ name, value string }{{"resource", p.Resource}, {"name", p.Name}} {
			if f.value == "" {
				errs = append(errs, field.Required(path.Child(f.name), ""))
			}
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(a, old *address) field.ErrorList {
		return check.Same(a.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))
	})
	k.SelectableFields = typed.Get(func(a *address) fields.Set {
		p := row.Deref(a.Spec.ParentRef)
		return fields.Set{"spec.parentRef.group": p.Group, "spec.parentRef.resource": p.Resource, "spec.parentRef.namespace": p.Namespace, "spec.parentRef.name": p.Name}
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]), column.Age(),
	}
	k.Cells = typed.Get(func(a *address) []any {
		text := column.None
		if p := a.Spec.ParentRef; p != nil {
			parts := []string{p.Resource}
			if p.Group != "" {
				parts[0] += "." + p.Group
			}
			if p.Namespace != "" {
				parts = append(parts, p.Namespace)
			}
			text = strings.Join(append(parts, p.Name), "/")
		}
		return []any{a.Name, text, column.Since(now(), a.CreationTimestamp.Time)}
	})
	return k
}
