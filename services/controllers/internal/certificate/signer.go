package certificate

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// backdate lets a certificate serve on machines whose clock is behind.
	backdate = 5 * time.Minute
	// short is up to where a certificate's time is too short to begin before it is made.
	short = 8 * time.Hour
)

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// Source returns the certificates of authorities and the key of one of them, in PEM, as they are now.
type Source func() (certificates, key []byte, err error)

// Read returns the authority of which the source has the key.
func Read(from Source) (*Authority, error) {
	certificates, key, err := from()
	if err != nil {
		return nil, err
	}
	return NewAuthority(certificates, key)
}

// NewAuthority reads a key, and its certificate among those given, in PEM: while an authority is replaced, there are two.
func NewAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	certificates, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, err
	}
	for _, c := range certificates {
		if public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
			continue
		}
		if !c.IsCA {
			return nil, errors.New("it is not the certificate of an authority")
		}
		return &Authority{c, key}, nil
	}
	return nil, errors.New("no certificate is of the key")
}

// sign issues a certificate that begins a little before now and lasts for the time given, or as long as the authority does. Of a short time nothing is lost to its
// early begin.
func (a *Authority) sign(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage, lasts time.Duration, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: asked.Subject, BasicConstraintsValid: true,
		DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, EmailAddresses: asked.EmailAddresses, URIs: asked.URIs,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lasts),
	}
	if lasts >= short {
		template.NotAfter = now.Add(lasts - backdate)
	}
	if a.certificate.NotAfter.Before(template.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	if !now.Before(template.NotAfter) {
		return nil, errors.New("the authority's certificate has expired")
	}
	if template.KeyUsage, template.ExtKeyUsage, err = keyUsages(usages); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, asked.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

var (
	plainUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
		certificatesv1.UsageSigning: x509.KeyUsageDigitalSignature, certificatesv1.UsageDigitalSignature: x509.KeyUsageDigitalSignature,
		certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment, certificatesv1.UsageKeyEncipherment: x509.KeyUsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement: x509.KeyUsageKeyAgreement, certificatesv1.UsageDataEncipherment: x509.KeyUsageDataEncipherment,
		certificatesv1.UsageCertSign: x509.KeyUsageCertSign, certificatesv1.UsageCRLSign: x509.KeyUsageCRLSign,
		certificatesv1.UsageEncipherOnly: x509.KeyUsageEncipherOnly, certificatesv1.UsageDecipherOnly: x509.KeyUsageDecipherOnly,
	}
	extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
		certificatesv1.UsageAny: x509.ExtKeyUsageAny, certificatesv1.UsageServerAuth: x509.ExtKeyUsageServerAuth,
		certificatesv1.UsageClientAuth: x509.ExtKeyUsageClientAuth, certificatesv1.UsageCodeSigning: x509.ExtKeyUsageCodeSigning,
		certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection, certificatesv1.UsageSMIME: x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageIPsecEndSystem: x509.ExtKeyUsageIPSECEndSystem, certificatesv1.UsageIPsecTunnel: x509.ExtKeyUsageIPSECTunnel,
		certificatesv1.UsageIPsecUser: x509.ExtKeyUsageIPSECUser, certificatesv1.UsageTimestamping: x509.ExtKeyUsageTimeStamping,
		certificatesv1.UsageOCSPSigning: x509.ExtKeyUsageOCSPSigning, certificatesv1.UsageMicrosoftSGC: x509.ExtKeyUsageMicrosoftServerGatedCrypto,
		certificatesv1.UsageNetscapeSGC: x509.ExtKeyUsageNetscapeServerGatedCrypto,
	}
)

func keyUsages(wanted []certificatesv1.KeyUsage) (plain x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	for _, usage := range wanted {
		bit, isPlain := plainUsages[usage]
		purpose, isExtended := extendedUsages[usage]
		switch {
		case isPlain:
			plain |= bit
		case isExtended && !slices.Contains(extended, purpose):
			extended = append(extended, purpose)
		case !isExtended:
			return 0, nil, fmt.Errorf("unrecognized usage %q", usage)
		}
	}
	slices.Sort(extended)
	return plain, extended, nil
}

// rule says why a signer does not sign a request; nil: it does.
type rule func(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error

// signers are those of Kubernetes that a cluster's own authority stands behind.
var signers = map[string]rule{
	certificatesv1.KubeAPIServerClientSignerName:        clientRule,
	certificatesv1.KubeAPIServerClientKubeletSignerName: nodeClientRule,
	certificatesv1.KubeletServingSignerName:             nodeServingRule,
	legacyUnknownSigner:                                 anyRule,
}

const legacyUnknownSigner = "kubernetes.io/legacy-unknown"

func anyRule(asked *x509.CertificateRequest, _ []certificatesv1.KeyUsage) error {
	return notOfTheMesh(asked)
}

// notOfTheMesh keeps the names of the control plane's own parts to the certificates that are made with the cluster.
func notOfTheMesh(asked *x509.CertificateRequest) error {
	for _, name := range append([]string{asked.Subject.CommonName}, asked.Subject.Organization...) {
		if strings.HasPrefix(name, "howdah:") {
			return fmt.Errorf("%q is a name of the control plane's own", name)
		}
	}
	return nil
}

func clientRule(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := only(usages, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth); err != nil {
		return err
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return errors.New(`usages did not contain "client auth"`)
	}
	return notOfTheMesh(asked)
}

// nodeSubject demands the subject of a node.
func nodeSubject(asked *x509.CertificateRequest) error {
	switch {
	case !slices.Equal(asked.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case !strings.HasPrefix(asked.Subject.CommonName, "system:node:"):
		return errors.New("subject common name does not begin with system:node:")
	case len(asked.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed")
	case len(asked.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	return nil
}

func nodeClientRule(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := nodeSubject(asked); err != nil {
		return err
	}
	switch {
	case len(asked.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(asked.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	}
	return exactly(usages, certificatesv1.UsageClientAuth)
}

func nodeServingRule(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := nodeSubject(asked); err != nil {
		return err
	}
	if len(asked.DNSNames)+len(asked.IPAddresses) == 0 {
		return errors.New("DNS or IP subjectAltName is required")
	}
	return exactly(usages, certificatesv1.UsageServerAuth)
}

// exactly demands digital signature and the purpose, and allows key encipherment, which only RSA keys use.
func exactly(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	all := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, purpose}
	if !slices.Contains(usages, certificatesv1.UsageDigitalSignature) || !slices.Contains(usages, purpose) || only(usages, all...) != nil {
		slices.Sort(all)
		return fmt.Errorf("usages did not match %v", all)
	}
	return nil
}

func only(usages []certificatesv1.KeyUsage, allowed ...certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		if !slices.Contains(allowed, usage) {
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	return nil
}
