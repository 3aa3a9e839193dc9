package nodeagent_test

import (
	"crypto/tls"
	"crypto/x509"
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
	"howdah.dev/kit/pki/pkitest"
)

// sign answers a request by the authority of the node's own certificate, for a month.
func (n *node) sign(r *certificatesv1.CertificateSigningRequest, serial int64) {
	n.t.Helper()
	certificate := pkitest.Sign(n.t, n.trust.authority, r.Spec.Request, func(c *x509.Certificate) {
		if c.Subject.CommonName != "system:node:"+nodeName || !slices.Equal(c.DNSNames, []string{nodeName}) || len(c.IPAddresses) != 1 || c.IPAddresses[0].String() != "192.0.2.1" {
			n.t.Fatalf("asked for %s %v %v", c.Subject, c.DNSNames, c.IPAddresses)
		}
		c.SerialNumber, c.KeyUsage, c.ExtKeyUsage = big.NewInt(serial), x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Minute), time.Now().AddDate(0, 1, 0)
	})
	r.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions:  []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}},
		Certificate: certificate,
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
