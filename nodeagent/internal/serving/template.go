// Package serving has the node's HTTPS endpoint show a certificate of the cluster's signer kubernetes.io/kubelet-serving: it asks for one, waits for
// whoever approves it, and asks again before it ends.
//
// Source: "Certificates and Certificate Signing Requests" and "TLS bootstrapping" in the Kubernetes reference.
package serving

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/nodecert"
)

// Template is what a node's certificate has to say. Names and addresses are in order, each once.
type Template struct {
	CommonName string
	DNSNames   []string
	Addresses  []netip.Addr
}

// TemplateOf is what the certificate of a node has to say: the node's name, and what its status tells of where it is reached. ok is false while
// the node has no address: the signer's approvers ask for one.
func TemplateOf(node *corev1.Node) (t Template, ok bool) {
	names, addresses := map[string]bool{node.Name: true}, map[netip.Addr]bool{}
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			addresses[ip.Unmap()] = true
			continue
		}
		switch a.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			if a.Address != "" {
				names[a.Address] = true
			}
		}
	}
	return Template{
		CommonName: nodecert.UserPrefix + node.Name, DNSNames: slices.Sorted(maps.Keys(names)),
		Addresses: slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare),
	}, len(addresses) > 0
}

func (t Template) equal(o Template) bool {
	return t.CommonName == o.CommonName && slices.Equal(t.DNSNames, o.DNSNames) && slices.Equal(t.Addresses, o.Addresses)
}

// check tells what a certificate lacks; it may say more than the template.
func (t Template) check(leaf *x509.Certificate) error {
	switch {
	case leaf.Subject.CommonName != t.CommonName:
		return fmt.Errorf("its name is %q, not %q", leaf.Subject.CommonName, t.CommonName)
	case !slices.Contains(leaf.Subject.Organization, nodecert.Organization):
		return fmt.Errorf("its organization is %q, not %s", leaf.Subject.Organization, nodecert.Organization)
	}
	for _, name := range t.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return fmt.Errorf("it lacks the name %s", name)
		}
	}
	for _, a := range t.Addresses {
		if !slices.ContainsFunc(leaf.IPAddresses, func(ip net.IP) bool { return ip.Equal(a.AsSlice()) }) {
			return fmt.Errorf("it lacks the address %s", a)
		}
	}
	return nil
}
