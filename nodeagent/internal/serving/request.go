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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pki"
)

type request = certificatesv1.CertificateSigningRequest

// newRequest makes a fresh P-256 key and what is to be asked of the signer for it. The key is in PEM.
func newRequest(t Template) (r *request, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: t.CommonName, Organization: []string{organization}}, DNSNames: t.DNSNames}
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

// refusal is an answer that will not change: the request was denied, could not be signed, or was signed as something else.
type refusal struct{ error }

// answer reads what has become of a request: nothing yet, a certificate in PEM, or a refusal.
func answer(r *request) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			continue
		}
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return nil, refusal{fmt.Errorf("request %s was denied: %s: %s", r.Name, c.Reason, c.Message)}
		case certificatesv1.CertificateFailed:
			return nil, refusal{fmt.Errorf("request %s could not be signed: %s: %s", r.Name, c.Reason, c.Message)}
		}
	}
	return r.Status.Certificate, nil
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
		return nil, refusal{fmt.Errorf("the certificate is of no use: %w", err)}
	}
	return &out, nil
}
