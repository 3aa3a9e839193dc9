// Package certificate has the controllers of CertificateSigningRequests: one signs those that are approved for Kubernetes' own signers,
// one approves those by which nodes get their client certificates, one removes those that have served.
//
// Source: "Certificates and Certificate Signing Requests" in the Kubernetes reference.
package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

type request = certificatesv1.CertificateSigningRequest

// condition returns the request's condition of a type that is true; nil where it has none.
func condition(r *request, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	i := slices.IndexFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == kind && c.Status != corev1.ConditionFalse
	})
	if i < 0 {
		return nil
	}
	return &r.Status.Conditions[i]
}

// parse reads the PKCS#10 request.
func parse(r *request) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return parsed, parsed.CheckSignature()
}
