package networking

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
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

const classAnnotation = "kubernetes.io/ingress.class"

func ingress(now func() time.Time) *registry.Kind {
	k := row.Of[networkingv1.Ingress, networkingv1.IngressList](gv, "ingresses")
	k.Namespaced, k.ShortNames = true, []string{"ing"}
	row.SpecStatus(k, func(i *networkingv1.Ingress) *networkingv1.IngressSpec { return &i.Spec },
		func(i *networkingv1.Ingress) *networkingv1.IngressStatus { return &i.Status }, validateIngressStatus)
	k.Status.Warnings = typed.Warn(func(i, _ *networkingv1.Ingress) (warnings []string) {
		for n, p := range i.Status.LoadBalancer.Ingress {
			if p.IP != "" {
				warnings = append(warnings, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(n), p.IP)...)
			}
		}
		return warnings
	})
	typed.Ratchet(k, validateIngress)
	k.ValidateCreate = typed.Check(func(i *networkingv1.Ingress) field.ErrorList {
		value, old := i.Annotations[classAnnotation]
		if class := i.Spec.IngressClassName; old && class != nil && value != *class {
			return field.ErrorList{field.Invalid(field.NewPath("annotations").Child(classAnnotation), value, "must match `ingressClassName` when both are specified")}
		}
		return nil
	})
	k.Warnings = typed.Warn(func(i, before *networkingv1.Ingress) []string {
		if _, old := i.Annotations[classAnnotation]; old && before == nil && i.Spec.IngressClassName == nil {
			return []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
		}
		return nil
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		column.String("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		column.String("Address", "Address is a list containing ingress points for the load-balancer"),
		column.String("Ports", "Ports of TLS configurations that open"), column.Age(),
	}
	k.Cells = typed.Get(func(i *networkingv1.Ingress) []any {
		ports := "80"
		if len(i.Spec.TLS) > 0 {
			ports = "80, 443"
		}
		return []any{
			i.Name, column.Or(row.Deref(i.Spec.IngressClassName), column.None), hosts(i.Spec.Rules), addresses(i.Status.LoadBalancer.Ingress),
			ports, column.Since(now(), i.CreationTimestamp.Time),
		}
	})
	return k
}

// shownHosts is the number of hosts that fit into the column.
const shownHosts = 3

func hosts(rules []networkingv1.IngressRule) string {
	var list []string
	for _, r := range rules {
		if r.Host != "" {
			list = append(list, r.Host)
		}
	}
	switch {
	case len(list) == 0:
		return "*"
	case len(list) > shownHosts:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shownHosts], ","), len(list)-shownHosts)
	}
	return strings.Join(list, ",")
}

func addresses(points []networkingv1.IngressLoadBalancerIngress) string {
	var list []string
	for _, p := range points {
		list = append(list, column.Or(p.IP, p.Hostname))
	}
	return strings.Join(list, ",")
}

// validateIngress checks an ingress; old is nil for a new one. Names of secrets, and what is behind hosts with a star, are left as they
// are where the stored one has faults of that sort.
func validateIngress(i, old *networkingv1.Ingress) field.ErrorList {
	spec, path := &i.Spec, field.NewPath("spec")
	anySecret := old != nil && slices.ContainsFunc(old.Spec.TLS, func(t networkingv1.IngressTLS) bool {
		return t.SecretName != "" && len(check.Subdomain(t.SecretName, path)) > 0
	})
	anyBehindStar := old != nil && slices.ContainsFunc(old.Spec.Rules, func(r networkingv1.IngressRule) bool {
		return strings.Contains(r.Host, "*") && len(validateHTTP(r.HTTP, path)) > 0
	})
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for n := range spec.Rules {
		r, at := &spec.Rules[n], path.Child("rules").Index(n)
		if r.Host != "" {
			errs = append(errs, notAnAddress(r.Host, at.Child("host"))...)
			errs = append(errs, validateHost(r.Host, at.Child("host"))...)
		}
		if !anyBehindStar || !strings.Contains(r.Host, "*") {
			errs = append(errs, validateHTTP(r.HTTP, at)...)
		}
	}
	for n, t := range spec.TLS {
		for m, host := range t.Hosts {
			errs = append(errs, validateHost(host, path.Child("tls").Index(n).Child("hosts").Index(m))...)
		}
		if t.SecretName != "" && !anySecret {
			errs = append(errs, check.Subdomain(t.SecretName, path.Child("tls").Index(n).Child("secretName"))...)
		}
	}
	if c := spec.IngressClassName; c != nil {
		errs = append(errs, check.Subdomain(*c, path.Child("ingressClassName"))...)
	}
	return errs
}

func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return check.Each(validation.IsWildcardDNS1123Subdomain(host), host, path)
	}
	return check.Subdomain(host, path)
}

func notAnAddress(host string, path *field.Path) field.ErrorList {
	if netutils.ParseIPSloppy(host) != nil {
		return field.ErrorList{field.Invalid(path, host, "must be a DNS name, not an IP address")}
	}
	return nil
}

// validateHTTP checks what is behind the host of the rule at path.
func validateHTTP(rule *networkingv1.HTTPIngressRuleValue, path *field.Path) field.ErrorList {
	if rule == nil {
		return nil
	}
	paths := path.Child("http", "paths")
	if len(rule.Paths) == 0 {
		return field.ErrorList{field.Required(paths, "")}
	}
	var errs field.ErrorList
	for n := range rule.Paths {
		errs = append(errs, validatePath(&rule.Paths[n], paths.Index(n))...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		errs = append(errs, validateAbsolute(p.Path, path.Child("path"))...)
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(path.Child("path"), p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix,
		}))
	}
	return append(errs, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateAbsolute(text string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !strings.HasPrefix(text, "/") {
		errs = append(errs, field.Invalid(path, text, "must be an absolute path"))
	}
	for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(text, bad) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("must not contain '%s'", bad)))
		}
	}
	for _, bad := range []string{"/..", "/."} {
		if strings.HasSuffix(text, bad) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("cannot end with '%s'", bad)))
		}
	}
	return errs
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Service != nil && b.Resource != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, path.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	return validateService(b.Service, path)
}

// validateService reports problems of the port as a whole at the backend.
func validateService(s *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name := path.Child("service", "name"); s.Name == "" {
		errs = append(errs, field.Required(name, ""))
	} else {
		errs = append(errs, check.Label(s.Name, name)...)
	}
	named, numbered := s.Port.Name != "", s.Port.Number != 0
	port := path.Child("service", "port")
	switch {
	case named && numbered:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case named:
		errs = append(errs, check.Each(validation.IsValidPortName(s.Port.Name), s.Port.Name, port.Child("name"))...)
	case numbered:
		errs = append(errs, check.Port(s.Port.Number, port.Child("number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

func validateIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	var errs field.ErrorList
	var stored []string
	for _, p := range old.Status.LoadBalancer.Ingress {
		stored = append(stored, p.IP)
	}
	for n, p := range i.Status.LoadBalancer.Ingress {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(n)
		if p.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Child("ip"), p.IP, true, stored)...)
		}
		if p.Hostname != "" {
			errs = append(errs, check.Subdomain(p.Hostname, path.Child("hostname"))...)
			errs = append(errs, notAnAddress(p.Hostname, path.Child("hostname"))...)
		}
	}
	return errs
}
