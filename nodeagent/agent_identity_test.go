package nodeagent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// signer signs the requests of pods. The certificates that it makes are to be replaced at once, and say in their serial numbers which they are.
type signer struct {
	client *object.Client
	key    *ecdsa.PrivateKey
	root   *x509.Certificate
	serial int64
}

func newSigner(t *testing.T, client *object.Client) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{client: client, key: key, root: root, serial: 1}
}

func inPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// run signs until ctx ends.
func (s *signer) run(ctx context.Context) error {
	requests := object.For(s.client, object.PodCertificateRequest)
	w, err := requests.Watch(ctx, "", metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if r, ok := event.Object.(*certificatesv1beta1.PodCertificateRequest); ok && len(r.Status.Conditions) == 0 {
			if err := s.sign(ctx, r.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return ctx.Err()
}

func (s *signer) sign(ctx context.Context, r *certificatesv1beta1.PodCertificateRequest) error {
	asked, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return err
	}
	s.serial++
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(s.serial), Subject: pkix.Name{CommonName: r.Spec.PodName}, NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, s.root, asked.PublicKey, s.key)
	if err != nil {
		return err
	}
	r.Status.CertificateChain = inPEM(der)
	r.Status.NotBefore, r.Status.NotAfter = ptr.To(metav1.NewTime(now)), ptr.To(metav1.NewTime(template.NotAfter))
	r.Status.BeginRefreshAt = ptr.To(metav1.NewTime(now.Add(-6 * time.Minute))) // the agent adds up to five
	r.Status.Conditions = []metav1.Condition{{Type: certificatesv1beta1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Signed", LastTransitionTime: metav1.NewTime(now)}}
	_, err = object.For(s.client, object.PodCertificateRequest).UpdateStatus(ctx, r)
	return err
}

// testIdentity has a pod with a key and certificates of its own, and those of the authority that signed them.
func (n *node) testIdentity(t *testing.T) {
	n = n.in(t)
	s := newSigner(t, n.client)
	ctx, cancel := context.WithCancel(t.Context())
	signed := make(chan error, 1)
	go func() { signed <- s.run(ctx) }()
	defer func() {
		cancel()
		if err := <-signed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	bundle := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "x.io:s:1"}}
	bundle.Spec.SignerName, bundle.Spec.TrustBundle = "x.io/s", "its own\n"+inPEM(s.root.Raw)
	if _, err := object.For(n.client, object.ClusterTrustBundle).Create(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "known"}}
	if _, err := object.For(n.client, object.ServiceAccount).Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	c := shell("exec sleep 1000")
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "identity"}, Spec: corev1.PodSpec{
		ServiceAccountName: "known", Containers: []corev1.Container{c},
		Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s"), LabelSelector: &metav1.LabelSelector{}, Path: "ca.pem"}},
			{PodCertificate: &corev1.PodCertificateProjection{SignerName: "x.io/s", KeyType: "ECDSAP256", CredentialBundlePath: "bundle.pem", CertificateChainPath: "chain.pem"}},
		}}}}},
	}})
	n.await("identity", "ready", time.Minute, ready)
	read := func(file string) string {
		t.Helper()
		stdout, stderr, outcome := n.run("identity", "cat /tls/"+file, "")
		if stderr != "" {
			t.Fatal(outcome, stderr)
		}
		return stdout
	}
	if ca := read("ca.pem"); ca != inPEM(s.root.Raw) {
		t.Errorf("the authority is\n%s", ca)
	}
	if both := read("bundle.pem"); !strings.HasPrefix(both, "-----BEGIN PRIVATE KEY-----\n") || strings.Count(both, "BEGIN CERTIFICATE") != 1 {
		t.Errorf("the bundle has not a key and a certificate: %d bytes", len(both))
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.root)
	var first *big.Int
	eventually(t, time.Minute, func() string {
		block, _ := pem.Decode([]byte(read("chain.pem")))
		if block == nil {
			return "there is no certificate"
		}
		got, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err.Error()
		}
		if _, err := got.Verify(x509.VerifyOptions{Roots: roots}); err != nil || got.Subject.CommonName != "identity" {
			t.Errorf("a certificate of %s: %v", got.Subject, err)
		}
		if first == nil {
			first = got.SerialNumber
		}
		if got.SerialNumber.Cmp(first) <= 0 {
			return "the certificate is not replaced"
		}
		return ""
	})
	n.remove("identity")
}
