package nodeagent_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// sign answers a request by the authority of the node's own certificate, for a month.
func (n *node) sign(r *certificatesv1.CertificateSigningRequest, serial int64) {
	n.t.Helper()
	key, err := n.trust.authority.KeyPEM()
	if err != nil {
		n.t.Fatal(err)
	}
	authority, err := tls.X509KeyPair(n.trust.authority.PEM(), key)
	if err != nil {
		n.t.Fatal(err)
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		n.t.Fatalf("request %s has none", r.Name)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		n.t.Fatal(err)
	}
	if asked.Subject.CommonName != "system:node:"+nodeName || !slices.Equal(asked.DNSNames, []string{nodeName}) || len(asked.IPAddresses) != 1 || asked.IPAddresses[0].String() != "192.0.2.1" {
		n.t.Fatalf("asked for %s %v %v", asked.Subject, asked.DNSNames, asked.IPAddresses)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().AddDate(0, 1, 0), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority.Leaf, asked.PublicKey, authority.PrivateKey)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions:  []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}},
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
	if _, err := object.For(n.client, object.CertificateSigningRequest).UpdateStatus(n.t.Context(), r); err != nil {
		n.t.Fatal(err)
	}
}

// serial is that of the certificate that the endpoint shows; who asks checks it by the cluster's authority.
func (n *node) serial() int64 {
	n.t.Helper()
	d := tls.Dialer{Config: &tls.Config{RootCAs: n.trust.authority.Pool(), MinVersion: tls.VersionTLS12}}
	c, err := d.DialContext(n.t.Context(), "tcp", strings.TrimPrefix(endpointURL, "https://"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	serial := c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber
	if !serial.IsInt64() {
		return 0 // the node's own has a long one
	}
	return serial.Int64()
}

// The endpoint shows the node's own certificate until the one that the agent has asked for is approved, and then that.
func (n *node) testServing(t *testing.T) {
	n = n.in(t)
	var requests []*certificatesv1.CertificateSigningRequest
	eventually(t, time.Minute, func() string {
		var err error
		if requests, _, err = object.For(n.client, object.CertificateSigningRequest).List(t.Context(), "", metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		if len(requests) != 1 || requests[0].Spec.SignerName != certificatesv1.KubeletServingSignerName {
			return fmt.Sprintf("one request is awaited: %v", requests)
		}
		return ""
	})
	if got := n.serial(); got != 0 {
		t.Fatalf("before somebody approves: %d", got)
	}
	n.sign(requests[0], 7)
	eventually(t, time.Minute, func() string {
		if got := n.serial(); got != 7 {
			return fmt.Sprintf("the certificate %d is shown", got)
		}
		return ""
	})
	if left := metric(n.ask("/metrics"), "kubelet_certificate_manager_server_ttl_seconds"); left < 27*24*3600 || left > 31*24*3600 {
		t.Errorf("it lasts %v s", left)
	}
	if body := n.ask("/configz"); !strings.Contains(body, `"serverTLSBootstrap":true`) {
		t.Errorf("settings: %s", body)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "kubelet", "pki", "kubelet-server-current.pem")); err != nil {
		t.Error(err)
	}
}
