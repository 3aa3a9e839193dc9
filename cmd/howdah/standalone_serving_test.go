package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pki"
)

// servingRequest is what a node agent asks for with --rotate-server-certificates.
func servingRequest(t *testing.T, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1), net.ParseIP("fd00::1")},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeletServingSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

// A node asks for the certificate of its endpoint and follows the request, an administrator approves it, and the controllers sign it with the cluster's authority.
func TestServingCertificateOnRequest(t *testing.T) {
	admin, address, dir := runStandalone(t)
	node, ctx := certified(t, dir, address, "n1", pki.Options{Nodes: []string{"n1"}}).CertificatesV1().CertificateSigningRequests(), t.Context()
	if _, err := node.Create(ctx, servingRequest(t, "n2"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "can only create a node CSR with CN=system:node:n1") {
		t.Errorf("in another node's name: %v", err)
	}
	asked, err := node.Create(ctx, servingRequest(t, "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Spec.Username != "system:node:n1" {
		t.Errorf("asked by %s", asked.Spec.Username)
	}
	news, err := node.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + asked.Name, ResourceVersion: asked.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer news.Stop()
	asked.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", Message: "This CSR was approved by kubectl certificate approve.",
	}}
	if _, err := node.UpdateApproval(ctx, asked.Name, asked, metav1.UpdateOptions{}); err == nil {
		t.Error("a node approves its own request")
	}
	if _, err := admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, asked.Name, asked, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	limit := time.After(time.Minute)
	for len(asked.Status.Certificate) == 0 {
		select {
		case e, ok := <-news.ResultChan():
			now, isRequest := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok || !isRequest {
				t.Fatalf("the watch ends with %v", e)
			}
			if len(now.Status.Conditions) > 0 && now.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
				t.Fatalf("the signer refuses: %+v", now.Status.Conditions)
			}
			asked = now
		case <-limit:
			t.Fatalf("it is not signed: %+v", asked.Status)
		}
	}
	block, _ := pem.Decode(asked.Status.Certificate)
	issued, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots, ca := x509.NewCertPool(), filepath.Join(dir, "n1", "ca.crt")
	text, err := os.ReadFile(ca)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%s: %v", ca, err)
	}
	for _, name := range []string{"n1", "192.0.2.1", "fd00::1"} {
		if _, err := issued.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if issued.Subject.CommonName != "system:node:n1" || !slices.Equal(issued.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("issued: %s, %v", issued.Subject, issued.ExtKeyUsage)
	}
}
