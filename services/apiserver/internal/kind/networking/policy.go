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

	"howdah.dev/kit/check"
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
	typed.Ratchet(k, validatePolicy)
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

// tolerated is what a policy may have although a new one may not, because the stored one has the like.
type tolerated struct {
	selectors metavalidation.LabelSelectorValidationOptions
	cidrs     []string
}

func toleratedOf(old *networkingv1.NetworkPolicy) tolerated {
	var t tolerated
	if old == nil {
		return t
	}
	t.selectors = check.Selectors(&old.Spec.PodSelector)
	note := func(peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			if b := peers[i].IPBlock; b != nil {
				t.cidrs = append(append(t.cidrs, b.CIDR), b.Except...)
			}
		}
	}
	for i := range old.Spec.Ingress {
		note(old.Spec.Ingress[i].From)
	}
	for i := range old.Spec.Egress {
		note(old.Spec.Egress[i].To)
	}
	return t
}

func validatePolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	spec, path := &p.Spec, field.NewPath("spec")
	may := toleratedOf(old)
	errs := metavalidation.ValidateLabelSelector(&spec.PodSelector, may.selectors, path.Child("podSelector"))
	for i := range spec.Ingress {
		at := path.Child("ingress").Index(i)
		errs = append(errs, validatePorts(spec.Ingress[i].Ports, at.Child("ports"))...)
		errs = append(errs, validatePeers(spec.Ingress[i].From, may, at.Child("from"))...)
	}
	for i := range spec.Egress {
		at := path.Child("egress").Index(i)
		errs = append(errs, validatePorts(spec.Egress[i].Ports, at.Child("ports"))...)
		errs = append(errs, validatePeers(spec.Egress[i].To, may, at.Child("to"))...)
	}
	if len(spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(path.Child("policyTypes"), &spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range spec.PolicyTypes {
		errs = append(errs, check.Supported(t, path.Child("policyTypes").Index(i), networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)...)
	}
	return errs
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

func validatePeers(peers []networkingv1.NetworkPolicyPeer, may tolerated, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		p, at := &peers[i], path.Index(i)
		if p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock == nil {
			errs = append(errs, field.Required(at, "must specify a peer"))
			continue
		}
		if p.PodSelector != nil {
			errs = append(errs, metavalidation.ValidateLabelSelector(p.PodSelector, may.selectors, at.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			errs = append(errs, metavalidation.ValidateLabelSelector(p.NamespaceSelector, may.selectors, at.Child("namespaceSelector"))...)
		}
		if p.IPBlock == nil {
			continue
		}
		errs = append(errs, validateBlock(p.IPBlock, may.cidrs, at.Child("ipBlock"))...)
		if p.PodSelector != nil || p.NamespaceSelector != nil {
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func validateBlock(b *networkingv1.IPBlock, old []string, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, old)
	_, all, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	for i, e := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, e, true, old)...)
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
