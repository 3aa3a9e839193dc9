package route

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"howdah.dev/kit/object"
)

// certificates are those of hosts.
type certificates struct {
	exact, wildcard map[string]*tls.Certificate // the latter without "*."
	any             *tls.Certificate
}

func newCertificates() certificates {
	return certificates{exact: map[string]*tls.Certificate{}, wildcard: map[string]*tls.Certificate{}}
}

func (c *certificates) find(name string) *tls.Certificate {
	if found := c.exact[name]; found != nil {
		return found
	}
	_, domain, _ := strings.Cut(name, ".")
	if found := c.wildcard[domain]; found != nil {
		return found
	}
	return c.any
}

// add gives a host, as an Ingress names it, a certificate, unless it has one.
func (c *certificates) add(name string, certificate *tls.Certificate) {
	domain, wild := strings.CutPrefix(name, "*.")
	switch {
	case name == "":
		if c.any == nil {
			c.any = certificate
		}
	case wild:
		if c.wildcard[domain] == nil {
			c.wildcard[domain] = certificate
		}
	case c.exact[name] == nil:
		c.exact[name] = certificate
	}
}

// pair is what a version of a Secret holds.
type pair struct {
	version     string
	certificate *tls.Certificate
	err         error
}

// secure adds the certificates of an Ingress, and returns for which hosts its plain HTTP is redirected: nil for none.
//
// A section of spec.tls that names no hosts is for those of the Ingress's rules.
func (w *work) secure(i *networkingv1.Ingress, f *faults) *names {
	all := newNames()
	for _, section := range i.Spec.TLS {
		hosts := section.Hosts
		if len(hosts) == 0 {
			for _, rule := range i.Spec.Rules {
				hosts = append(hosts, rule.Host)
			}
		}
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, name := range hosts {
			all.add(name)
		}
		if section.SecretName != "" {
			w.certify(i.Namespace, section.SecretName, hosts, f)
		}
	}
	switch value, ok := i.Annotations[RedirectAnnotation]; {
	case value == "false":
		return nil
	case ok && value != "true":
		f.add(ReasonAnnotation, `the annotation %s is %q, neither "true" nor "false": "true" is assumed`, RedirectAnnotation, value)
	}
	return all
}

// certify gives hosts the certificate of a Secret. One that is not for a host is given to it all the same: what is wrong with it is then seen by clients, too.
func (w *work) certify(namespace, name string, hosts []string, f *faults) {
	secret, ok := w.objects.Secret(namespace, name)
	if !ok {
		f.add(ReasonSecret, "there is no Secret %q of the type %s: the default certificate is served", name, corev1.SecretTypeTLS)
		return
	}
	p := w.pair(secret)
	if p.err != nil {
		f.add(ReasonCertificate, "the Secret %q: %v: the default certificate is served", name, p.err)
		return
	}
	if end := p.certificate.Leaf.NotAfter; w.now.After(end) {
		f.add(ReasonCertificate, "the Secret %q: the certificate has ended at %s", name, end.UTC().Format(time.RFC3339))
	}
	for _, host := range hosts {
		// A wildcard is asked for by one of the names that it stands for.
		if err := p.certificate.Leaf.VerifyHostname(strings.Replace(host, "*", "any", 1)); host != "" && err != nil {
			f.add(ReasonCertificate, "the Secret %q: %v", name, err)
		}
		w.table.certificates.add(host, p.certificate)
	}
}

// pair parses a Secret, once a version.
func (w *work) pair(secret *corev1.Secret) *pair {
	key, version := object.KeyOf(secret), string(secret.UID)+"/"+secret.ResourceVersion
	p := w.kept.pairs[key]
	if p == nil {
		p = w.builder.kept.pairs[key]
	}
	if p == nil || p.version != version {
		p = &pair{version: version}
		certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if p.certificate = &certificate; err != nil {
			p.err = fmt.Errorf("no certificate with its key: %w", err)
		}
	}
	w.kept.pairs[key] = p
	return p
}
