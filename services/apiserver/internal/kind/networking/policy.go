package networking

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func policy(now func() time.Time) *registry.Kind {
	k := row.Of[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](gv, "networkpolicies")
	k.Namespaced, k.ShortNames = true, []string{"netpol"}
	row.Spec(k, func(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicySpec { return &p.Spec })
	k.Default = typed.Do(fillPolicy)
	// An empty list is another spec than none.
	k.PrepareUpdate = typed.Change(func(p, old *networkingv1.NetworkPolicy) {
		p.Generation = old.Generation
		if !reflect.DeepEqual(p.Spec, old.Spec) {
			p.Generation++
		}
	})
	k.Warnings = typed.Warn(policyWarnings)
	k.Validate = typed.Check(validatePolicy)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), column.Age(),
	}
	k.Cells = typed.Get(func(p *networkingv1.NetworkPolicy) []any {
		return []any{p.Name, column.Selector(&p.Spec.PodSelector), column.Since(now(), p.CreationTimestamp.Time)}
	})
	return k
}

// fillPolicy says the protocol of ports, and that a policy is about egress where it has such rules.
func fillPolicy(p *networkingv1.NetworkPolicy) {
	fill := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			row.Set(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range p.Spec.Ingress {
		fill(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		fill(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func validatePolicy(p *networkingv1.NetworkPolicy) field.ErrorList {
	spec, path := &p.Spec, field.NewPath("spec")
	errs := labelSelector(&spec.PodSelector, path.Child("podSelector"))
	for i := range spec.Ingress {
		at := path.Child("ingress").Index(i)
		errs = append(errs, validatePorts(spec.Ingress[i].Ports, at.Child("ports"))...)
		errs = append(errs, validatePeers(spec.Ingress[i].From, at.Child("from"))...)
	}
	for i := range spec.Egress {
		at := path.Child("egress").Index(i)
		errs = append(errs, validatePorts(spec.Egress[i].Ports, at.Child("ports"))...)
		errs = append(errs, validatePeers(spec.Egress[i].To, at.Child("to"))...)
	}
	if len(spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(path.Child("policyTypes"), &spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range spec.PolicyTypes {
		errs = append(errs, check.Supported(t, path.Child("policyTypes").Index(i), networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)...)
	}
	return errs
}

func labelSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
}

func validatePorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.Protocol != nil {
			errs = append(errs, check.Supported(*p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		}
		switch {
		case p.Port == nil:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, "may not be specified when `port` is not specified"))
			}
		case p.Port.Type == intstr.Int:
			errs = append(errs, check.Port(p.Port.IntVal, at.Child("port"))...)
			if p.EndPort == nil {
				break
			}
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(at.Child("endPort"), p.Port.IntVal, "must be greater than or equal to `port`"))
			}
			errs = append(errs, check.Port(*p.EndPort, at.Child("endPort"))...)
		default:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, check.Each(validation.IsValidPortName(p.Port.StrVal), p.Port.StrVal, at.Child("port"))...)
		}
	}
	return errs
}

func validatePeers(peers []networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		p, at := &peers[i], path.Index(i)
		if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
			errs = append(errs, field.Required(at, "must specify a peer"))
			continue
		}
		if p.PodSelector != nil {
			errs = append(errs, labelSelector(p.PodSelector, at.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			errs = append(errs, labelSelector(p.NamespaceSelector, at.Child("namespaceSelector"))...)
		}
		if p.IPBlock == nil {
			continue
		}
		errs = append(errs, validateBlock(p.IPBlock, at.Child("ipBlock"))...)
		if p.PodSelector != nil || p.NamespaceSelector != nil {
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func validateBlock(b *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, nil)
	_, all, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	for i, e := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, e, true, nil)...)
		ip, part, err := netutils.ParseCIDRSloppy(e)
		if err != nil {
			continue
		}
		bits, _ := all.Mask.Size()
		if inner, _ := part.Mask.Size(); !all.Contains(ip) || inner <= bits {
			errs = append(errs, field.Invalid(at, e, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

// policyWarnings are about networks that are not written as they should be.
func policyWarnings(p, _ *networkingv1.NetworkPolicy) []string {
	var list []string
	peers := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i := range peers {
			b, path := peers[i].IPBlock, path.Index(i).Child("ipBlock")
			if b == nil {
				continue
			}
			list = append(list, validation.GetWarningsForCIDR(path.Child("cidr"), b.CIDR)...)
			for n, e := range b.Except {
				list = append(list, validation.GetWarningsForCIDR(path.Child("except").Index(n), e)...)
			}
		}
	}
	path := field.NewPath("spec")
	for i := range p.Spec.Ingress {
		peers(p.Spec.Ingress[i].From, path.Child("ingress").Index(i).Child("from"))
	}
	for i := range p.Spec.Egress {
		peers(p.Spec.Egress[i].To, path.Child("egress").Index(i).Child("to"))
	}
	return list
}
