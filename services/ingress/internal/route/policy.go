package route

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// reasonPolicy is why a backend cannot be asked whose policy cannot act.
const reasonPolicy = "PolicyInvalid"

// BackendTLS is how the endpoints of a backend prove who they are. It stays the same from table to table as long as it says the same.
type BackendTLS struct {
	// ServerName is what is asked for, and, without Names and URIs, what the certificate must be for.
	ServerName  string
	Names, URIs []string
	// Roots are the authorities that are believed; nil are those of the machine.
	Roots *x509.CertPool
	// Certificate is by which the backend knows the Gateway; nil: none.
	Certificate *tls.Certificate
}

// policies are the BackendTLSPolicies, by the ports of Services that they are for.
type policies struct {
	byTarget map[policyTarget]*policy
	all      []*policy
	byTLS    map[*Backend]*policy
}

type policyTarget struct{ namespace, service, port string } // port by name, "" for all

// policy is one as it is decided about.
type policy struct {
	object    *gatewayv1.BackendTLSPolicy
	accepted  verdict
	refs      verdict
	conflict  int // targets that an older one has
	said      string
	certs     []*x509.Certificate
	ancestors []*gateway
}

func (g *gateways) readPolicies() policies {
	out := policies{byTarget: map[policyTarget]*policy{}, byTLS: map[*Backend]*policy{}}
	for _, o := range sorted(g.from.Policies) {
		p := &policy{object: o}
		out.all = append(out.all, p)
		g.readPolicy(p)
		for _, target := range o.Spec.TargetRefs {
			if target.Group != "" || target.Kind != "Service" {
				p.accepted.refuse(string(gatewayv1.PolicyReasonInvalid), "policies are for Services, not for a %s", target.Kind)
				continue
			}
			key := policyTarget{o.Namespace, string(target.Name), string(ptr.Deref(target.SectionName, ""))}
			if out.byTarget[key] != nil {
				p.conflict++
				continue
			}
			out.byTarget[key] = p
		}
		if p.conflict > 0 && p.conflict == len(o.Spec.TargetRefs) {
			p.accepted.refuse(string(gatewayv1.PolicyReasonConflicted), "an older policy is for the same")
		}
	}
	return out
}

func (g *gateways) readPolicy(p *policy) {
	v := &p.object.Spec.Validation
	if len(p.object.Spec.Options) > 0 {
		p.accepted.refuse(string(gatewayv1.PolicyReasonInvalid), "options: %q is not known", slices.Sorted(maps.Keys(p.object.Spec.Options))[0])
	}
	var said []string
	for _, ref := range v.CACertificateRefs {
		if ref.Group != "" || ref.Kind != "ConfigMap" {
			p.refs.refuse(string(gatewayv1.BackendTLSPolicyReasonInvalidKind), "certificates of authorities are in ConfigMaps, not in a %s", ref.Kind)
			continue
		}
		found, why := g.authorities(p.object.Namespace, string(ref.Name))
		if why != "" {
			p.refs.refuse(string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef), "%s", why)
			continue
		}
		p.certs = append(p.certs, found.certificates...)
		said = append(said, string(ref.Name), found.version)
	}
	system := v.WellKnownCACertificates != nil && *v.WellKnownCACertificates == gatewayv1.WellKnownCACertificatesSystem
	if v.WellKnownCACertificates != nil && *v.WellKnownCACertificates != "" && !system {
		p.accepted.refuse(string(gatewayv1.PolicyReasonInvalid), "wellKnownCACertificates: %q is not known", *v.WellKnownCACertificates)
	}
	if len(p.certs) == 0 && !system {
		p.accepted.refuse(string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), "no certificate of an authority is there to judge backends by: %s", p.refs.message)
	}
	p.said = fmt.Sprintf("%s/%d %s", p.object.UID, p.object.Generation, strings.Join(said, " "))
}

// find returns the policy for a port of a Service, by its name: that for the port before that for all.
func (p *policies) find(namespace, service, port string) *policy {
	if port != "" {
		if found := p.byTarget[policyTarget{namespace, service, port}]; found != nil {
			return found
		}
	}
	return p.byTarget[policyTarget{namespace, service, ""}]
}

// secureBackend applies the policy for a backend.
func (g *gateways) secureBackend(b *Backend, at *gateway) {
	p := g.policies.find(b.Namespace, b.Service, b.portName)
	if p == nil {
		return
	}
	g.policies.byTLS[b] = p
	if !p.accepted.ok() {
		b.Problem, b.reason, b.Endpoints = "the BackendTLSPolicy "+p.object.Name+": "+p.accepted.message, reasonPolicy, nil
		g.policies.used(b, at)
		return
	}
	b.Protocol, b.TLS = HTTPS, g.backendTLS(p, at)
	g.table.secured[b.TLS] = true
}

func (g *gateways) backendTLS(p *policy, at *gateway) *BackendTLS {
	key := p.said
	if at.identity != nil {
		key += fmt.Sprintf(" %p", at.identity)
	}
	known := g.kept.policies[key]
	if known == nil {
		known = g.builder.kept.policies[key]
	}
	if known == nil {
		v := &p.object.Spec.Validation
		known = &BackendTLS{ServerName: string(v.Hostname), Certificate: at.identity}
		for _, san := range v.SubjectAltNames {
			if san.Type == gatewayv1.URISubjectAltNameType {
				known.URIs = append(known.URIs, string(san.URI))
			} else {
				known.Names = append(known.Names, strings.ToLower(string(san.Hostname)))
			}
		}
		if len(p.certs) > 0 {
			known.Roots = x509.NewCertPool()
			for _, c := range p.certs {
				known.Roots.AddCert(c)
			}
		}
	}
	g.kept.policies[key] = known
	return known
}

// used notes that a Gateway leads to a backend, whose policy then tells of it.
func (p *policies) used(b *Backend, by *gateway) {
	if one := p.byTLS[b]; one != nil && !slices.Contains(one.ancestors, by) {
		one.ancestors = append(one.ancestors, by)
	}
}

// Verify reports whether a certificate is one that the policy asks for, beyond its authority.
func (b *BackendTLS) Verify(c *x509.Certificate) error {
	if len(b.Names)+len(b.URIs) == 0 {
		return c.VerifyHostname(b.ServerName)
	}
	for _, name := range b.Names {
		if strings.HasPrefix(name, "*.") && slices.Contains(c.DNSNames, name) || c.VerifyHostname(name) == nil {
			return nil
		}
	}
	for _, u := range c.URIs {
		if slices.Contains(b.URIs, u.String()) {
			return nil
		}
	}
	return fmt.Errorf("the certificate is for none of %q and %q", b.Names, b.URIs)
}

// tellPolicies decides the status of the policies: for each Gateway that leads to what they are for.
func (g *gateways) tellPolicies() {
	// A policy whose targets an older one has is told of where that one is.
	for _, p := range g.policies.all {
		for _, target := range p.object.Spec.TargetRefs {
			key := policyTarget{p.object.Namespace, string(target.Name), string(ptr.Deref(target.SectionName, ""))}
			if other := g.policies.byTarget[key]; other != nil && other != p {
				for _, a := range other.ancestors {
					if !slices.Contains(p.ancestors, a) {
						p.ancestors = append(p.ancestors, a)
					}
				}
			}
		}
	}
	for _, p := range g.policies.all {
		generation := p.object.Generation
		conditions := []metav1.Condition{
			p.accepted.condition(string(gatewayv1.PolicyConditionAccepted), string(gatewayv1.PolicyReasonAccepted), generation),
			p.refs.condition(string(gatewayv1.BackendTLSPolicyConditionResolvedRefs), string(gatewayv1.BackendTLSPolicyReasonResolvedRefs), generation),
		}
		for _, a := range p.ancestors {
			g.table.Statuses.Policies[object.KeyOf(p.object)] = append(g.table.Statuses.Policies[object.KeyOf(p.object)], gatewayv1.PolicyAncestorStatus{
				AncestorRef: gatewayv1.ParentReference{
					Group: ptr.To(gatewayv1.Group(group)), Kind: ptr.To(gatewayv1.Kind("Gateway")),
					Namespace: ptr.To(gatewayv1.Namespace(a.object.Namespace)), Name: gatewayv1.ObjectName(a.object.Name),
				},
				ControllerName: gatewayv1.GatewayController(g.from.Controller), Conditions: slices.Clone(conditions),
			})
		}
		if len(p.ancestors) > 0 {
			g.fault(p.object, conditions)
		}
	}
}

// Has reports whether a backend of the table is asked as b says.
func (t *Table) Has(b *BackendTLS) bool { return t.secured[b] }
