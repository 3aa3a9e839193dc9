package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"
)

// check tells why a pair on disk does not do for a subject any more; nil
// means that it is kept.
func (a *Authority) check(pair Pair, s Subject, now time.Time) error {
	cert, err := decodeCertificate(pair.Certificate)
	if err != nil {
		return err
	}
	key, err := DecodeKey(pair.Key)
	if err != nil {
		return err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(&key.PublicKey) {
		return fmt.Errorf("the key is not the certificate's")
	}
	if now.Add(renewBefore).After(cert.NotAfter) {
		return fmt.Errorf("it ends at %s", cert.NotAfter.Format(time.RFC3339))
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return err
	}
	dns, ips := s.names()
	switch {
	case cert.Subject.CommonName != s.CommonName || !sameSet(cert.Subject.Organization, s.Organizations):
		return fmt.Errorf("its subject is %s", cert.Subject)
	case !sameSet(cert.DNSNames, dns) || !sameSet(text(cert.IPAddresses), text(ips)):
		return fmt.Errorf("its names are %v %v", cert.DNSNames, cert.IPAddresses)
	case !slices.Equal(cert.ExtKeyUsage, s.usages()):
		return fmt.Errorf("its usages are %v", cert.ExtKeyUsage)
	}
	return nil
}

func text(ips []net.IP) []string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = ip.String()
	}
	return out
}

// sameSet compares without regard to order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
