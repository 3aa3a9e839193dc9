package route

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// authorityKey is where ConfigMaps have the certificates of authorities.
const authorityKey = "ca.crt"

// certify finds a listener's certificates. Those that are good are served, whatever the others are.
func (g *gateways) certify(l *listener) {
	t := l.spec.TLS
	if t != nil && ptr.Deref(t.Mode, "") == gatewayv1.TLSModePassthrough {
		return
	}
	if t == nil || len(t.CertificateRefs) == 0 {
		l.refs.refuse(string(gatewayv1.ListenerReasonInvalidCertificateRef), "tls.certificateRefs names no certificate")
		return
	}
	for _, ref := range t.CertificateRefs {
		certificate, why := g.secret(l.parent.kind, l.parent.object.GetNamespace(), ref, string(gatewayv1.ListenerReasonInvalidCertificateRef))
		if !why.ok() {
			l.refs.refuse(why.reason, "%s", why.message)
			continue
		}
		l.certificates = append(l.certificates, certificate)
	}
}

// secret reads a key pair that an object of a kind and namespace names.
func (g *gateways) secret(kind, from string, ref gatewayv1.SecretObjectReference, invalid string) (*tls.Certificate, verdict) {
	var why verdict
	namespace, name := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(from))), string(ref.Name)
	if ptr.Deref(ref.Group, "") != "" || ptr.Deref(ref.Kind, "Secret") != "Secret" {
		why.refuse(invalid, "certificates are in Secrets, not in a %s", ptr.Deref(ref.Kind, ""))
		return nil, why
	}
	if !g.granted(kind, from, "", "Secret", namespace, name) {
		why.refuse(string(gatewayv1.ListenerReasonRefNotPermitted), "no ReferenceGrant of the namespace %s lets this %s name the Secret %q", namespace, kind, name)
		return nil, why
	}
	secret, ok := g.objects.Secret(namespace, name)
	if !ok {
		why.refuse(invalid, "there is no Secret %q of the type %s", name, corev1.SecretTypeTLS)
		return nil, why
	}
	p := g.pair(secret)
	if p.err != nil {
		why.refuse(invalid, "the Secret %q: %v", name, p.err)
		return nil, why
	}
	return p.certificate, why
}

// backendIdentity reads the certificate by which backends know a Gateway.
func (g *gateways) backendIdentity(one *gateway) {
	t := one.object.Spec.TLS
	if t == nil || t.Backend == nil || t.Backend.ClientCertificateRef == nil {
		return
	}
	one.identity, one.refs = g.secret("Gateway", one.object.Namespace, *t.Backend.ClientCertificateRef, string(gatewayv1.GatewayReasonInvalidClientCertificateRef))
}

// validate decides what a listener of HTTPS asks of clients: what the Gateway says for its port, or for all.
func (g *gateways) validate(one *gateway, l *listener) {
	t := one.object.Spec.TLS
	if l.spec.Protocol != gatewayv1.HTTPSProtocolType || t == nil || t.Frontend == nil {
		return
	}
	v := t.Frontend.Default.Validation
	for n := range t.Frontend.PerPort {
		if p := &t.Frontend.PerPort[n]; p.Port == l.spec.Port {
			v = p.TLS.Validation
		}
	}
	if v == nil {
		return
	}
	out := &Validation{Insecure: v.Mode == gatewayv1.AllowInsecureFallback}
	one.insecure = one.insecure || out.Insecure
	var certificates []*x509.Certificate
	for _, ref := range v.CACertificateRefs {
		namespace := string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(one.object.Namespace)))
		if ref.Group != "" || ref.Kind != "ConfigMap" {
			l.refs.refuse(string(gatewayv1.ListenerReasonInvalidCACertificateKind), "certificates of authorities are in ConfigMaps, not in a %s", ref.Kind)
			continue
		}
		if !g.granted("Gateway", one.object.Namespace, "", "ConfigMap", namespace, string(ref.Name)) {
			l.refs.refuse(string(gatewayv1.ListenerReasonRefNotPermitted), "no ReferenceGrant of the namespace %s lets this Gateway name the ConfigMap %q", namespace, ref.Name)
			continue
		}
		found, why := g.authorities(namespace, string(ref.Name))
		if why != "" {
			l.refs.refuse(string(gatewayv1.ListenerReasonInvalidCACertificateRef), "%s", why)
			continue
		}
		certificates = append(certificates, found.certificates...)
	}
	if len(certificates) == 0 {
		l.accepted.refuse(string(gatewayv1.ListenerReasonNoValidCACertificate), "no certificate of an authority is there to judge clients by: %s", l.refs.message)
		return
	}
	out.Roots = x509.NewCertPool()
	for _, c := range certificates {
		out.Roots.AddCert(c)
	}
	l.validation = out
}

// authorities are the certificates that a version of a ConfigMap holds.
type authorities struct {
	version      string
	certificates []*x509.Certificate
	err          error
}

// authorities reads those of a ConfigMap, once a version; else it says why not.
func (w *work) authorities(namespace, name string) (*authorities, string) {
	m, ok := w.objects.ConfigMap(namespace, name)
	if !ok {
		return nil, "there is no ConfigMap \"" + name + "\""
	}
	key, version := object.KeyOf(m), string(m.UID)+"/"+m.ResourceVersion
	a := w.kept.authorities[key]
	if a == nil {
		a = w.builder.kept.authorities[key]
	}
	if a == nil || a.version != version {
		a = &authorities{version: version}
		a.certificates, a.err = certificatesOf([]byte(m.Data[authorityKey]))
	}
	w.kept.authorities[key] = a
	if a.err != nil {
		return nil, "the ConfigMap \"" + name + "\": " + a.err.Error()
	}
	return a, ""
}

// certificatesOf parses PEM; there must be one at least, and nothing that is none.
func certificatesOf(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate under " + authorityKey)
	}
	return out, nil
}

// Authorities are what of a ConfigMap's data is read here.
func Authorities(data map[string]string) map[string]string {
	if text, ok := data[authorityKey]; ok {
		return map[string]string{authorityKey: text}
	}
	return nil
}
