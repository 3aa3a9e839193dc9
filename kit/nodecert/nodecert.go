// Package nodecert is the certificate by which a node is known to the cluster: how it is asked for, and how it is kept.
//
// Source: "TLS bootstrapping" and "Certificates and Certificate Signing Requests" in the Kubernetes reference.
package nodecert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pki"
)

const (
	// Organization is the group of all nodes, and UserPrefix begins a node's user name.
	Organization = "system:nodes"
	UserPrefix   = "system:node:"
)

// Request is what a signer is asked.
type Request = certificatesv1.CertificateSigningRequest

// NewKey makes a P-256 key, in PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return pki.EncodeKey(key)
}

// NewRequest is what the signer kubernetes.io/kube-apiserver-client-kubelet is asked for a node and its key, in PEM. Its name follows from both, so that
// who asks again after a failure finds what was asked before.
func NewRequest(node string, keyPEM []byte) (*Request, error) {
	key, err := pki.DecodeKey(keyPEM)
	if err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: UserPrefix + node, Organization: []string{Organization}}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	sum := sha256.Sum256(append(public, node...))
	return &Request{
		ObjectMeta: metav1.ObjectMeta{Name: "node-csr-" + hex.EncodeToString(sum[:20])},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, nil
}

// Refusal is an answer that will not change: the request was denied, could not be signed, or was signed as something else.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns what was refused.
func (r Refusal) Unwrap() error { return r.Err }

// Answer reads what has become of a request: nothing yet, a certificate in PEM, or a Refusal.
func Answer(r *Request) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			continue
		}
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return nil, Refusal{fmt.Errorf("request %s was denied: %s: %s", r.Name, c.Reason, c.Message)}
		case certificatesv1.CertificateFailed:
			return nil, Refusal{fmt.Errorf("request %s could not be signed: %s: %s", r.Name, c.Reason, c.Message)}
		}
	}
	return r.Status.Certificate, nil
}

// Check joins a certificate and its key, both in PEM, and makes sure that they are a node's, of one of the authorities, and good now.
func Check(certificate, key []byte, node string, authorities *x509.CertPool, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	switch leaf := pair.Leaf; {
	case leaf.Subject.CommonName != UserPrefix+node:
		return nil, fmt.Errorf("it is the certificate of %q, not of %q", leaf.Subject.CommonName, UserPrefix+node)
	case !slices.Contains(leaf.Subject.Organization, Organization):
		return nil, fmt.Errorf("it is not the certificate of one of %s", Organization)
	case !now.Before(leaf.NotAfter):
		return nil, fmt.Errorf("it ended at %s: %w", leaf.NotAfter.Format(time.RFC3339), ErrEnded)
	}
	options := x509.VerifyOptions{Roots: authorities, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := pair.Leaf.Verify(options); err != nil {
		return nil, err
	}
	return &pair, nil
}

// ErrEnded is that of a certificate that was good once.
var ErrEnded = errors.New("its time is over")

// Due is when a certificate is to be replaced: between 70 and 90 % of its time, so that the nodes of a cluster do not ask all at once. part is from 0 to 1.
func Due(leaf *x509.Certificate, part float64) time.Time {
	lasts := float64(leaf.NotAfter.Sub(leaf.NotBefore))
	return leaf.NotBefore.Add(time.Duration(lasts * (0.7 + 0.2*part)))
}
