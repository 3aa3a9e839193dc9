package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/pki"
)

type request = nodecert.Request

// newRequest makes a fresh P-256 key and what is to be asked of the signer for it. The key is in PEM.
func newRequest(t Template) (r *request, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: t.CommonName, Organization: []string{nodecert.Organization}}, DNSNames: t.DNSNames}
	for _, a := range t.Addresses {
		template.IPAddresses = append(template.IPAddresses, a.AsSlice())
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make a request: %w", err)
	}
	if key, err = pki.EncodeKey(private); err != nil {
		return nil, nil, err
	}
	return &request{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, key, nil
}

// pair joins a certificate and its key, and makes sure that they are what was asked for.
func pair(certificate, key []byte, t Template, now time.Time) (*tls.Certificate, error) {
	out, err := tls.X509KeyPair(certificate, key)
	if err == nil {
		err = t.check(out.Leaf)
	}
	if err == nil && !now.Before(out.Leaf.NotAfter) {
		err = errors.New("it has ended already")
	}
	if err != nil {
		return nil, nodecert.Refusal{Err: fmt.Errorf("the certificate is of no use: %w", err)}
	}
	return &out, nil
}
