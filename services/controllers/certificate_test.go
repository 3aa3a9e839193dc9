package controllers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
)

// certificateRequest is one for a signer, with a key of its own.
func certificateRequest(t *testing.T, name, signer string, subject pkix.Name, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Usages: usages, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

// TestCertificatesAreSigned asks for certificates: a person's is signed once it is approved, a node's is approved by itself, and one with
// a name of the control plane's own fails.
func TestCertificatesAreSigned(t *testing.T) {
	t.Parallel()
	var signs atomic.Pointer[pki.Authority]
	replace := func() {
		authority, err := pki.NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		signs.Store(authority)
	}
	replace()
	client := setupReal(t, "csrsigning,csrapproving,csrcleaner", func(c *Config) {
		c.Signing = func() (certificates, key []byte, err error) {
			authority := signs.Load()
			key, err = authority.KeyPEM()
			return authority.PEM(), key, err
		}
	})
	kind := object.CertificateSigningRequest
	for _, r := range []*certificatesv1.CertificateSigningRequest{
		certificateRequest(t, "jane", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, certificatesv1.UsageClientAuth),
		certificateRequest(t, "intruder", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "howdah:gateway", Organization: []string{"howdah:gateways"}}, certificatesv1.UsageClientAuth),
		certificateRequest(t, "elsewhere", "example.com/signer", pkix.Name{CommonName: "jane"}, certificatesv1.UsageClientAuth),
	} {
		made := create(t, client, kind, r)
		made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "by the test",
		})
		if _, err := object.For(client, kind).UpdateSubresource(t.Context(), "approval", made); err != nil {
			t.Fatal(err)
		}
	}
	create(t, client, kind, certificateRequest(t, "node", certificatesv1.KubeAPIServerClientKubeletSignerName,
		pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature))
	await(t, client, kind, "certificates", func(all []*certificatesv1.CertificateSigningRequest) bool {
		states := map[string]string{}
		for _, r := range all {
			for _, c := range r.Status.Conditions {
				states[r.Name] += string(c.Type) + "/" + c.Reason + " "
			}
			if len(r.Status.Certificate) > 0 {
				states[r.Name] += "signed"
			}
		}
		return states["jane"] == "Approved/Test signed" && states["node"] == "Approved/AutoApproved signed" &&
			states["intruder"] == "Approved/Test Failed/SignerValidationFailure " && states["elsewhere"] == "Approved/Test "
	})
	signed := func(name string) {
		t.Helper()
		r, err := object.For(client, kind).Get(t.Context(), "", name)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(r.Status.Certificate)
		issued, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := issued.Verify(x509.VerifyOptions{Roots: signs.Load().Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(err)
		}
	}
	signed("jane")

	// Another authority signs from when it is there.
	replace()
	create(t, client, kind, certificateRequest(t, "later", certificatesv1.KubeAPIServerClientKubeletSignerName,
		pkix.Name{CommonName: "system:node:b", Organization: []string{"system:nodes"}}, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature))
	await(t, client, kind, "the certificate by another authority", func(all []*certificatesv1.CertificateSigningRequest) bool {
		return slices.ContainsFunc(all, func(r *certificatesv1.CertificateSigningRequest) bool {
			return r.Name == "later" && len(r.Status.Certificate) > 0
		})
	})
	signed("later")
}
