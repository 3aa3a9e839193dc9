package kind_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

type podRequest = certificatesv1beta1.PodCertificateRequest

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(curve, rand.Reader))
}

func stubOf(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	return must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
}

func asks(key []byte) *podRequest {
	day := int32(86400)
	return &podRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "n"}, Spec: certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: "example.com/s", PodName: "p", PodUID: "pu", ServiceAccountName: "sa", ServiceAccountUID: "su", NodeName: "n", NodeUID: "nu",
		MaxExpirationSeconds: &day, StubPKCS10Request: key,
	}}
}

func podRequests(t *testing.T) *registry.Kind {
	t.Helper()
	return previewOf(t, certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"))
}

func listed(errs field.ErrorList) string {
	var texts []string
	for _, e := range errs {
		texts = append(texts, e.Error())
	}
	return strings.Join(texts, "\n")
}

// What Kubernetes 1.36 says of new requests.
func TestPodCertificateRequests(t *testing.T) {
	t.Parallel()
	k := podRequests(t)
	key, weak := newKey(t, elliptic.P256()), newKey(t, elliptic.P224())
	public := must[[]byte](t)(x509.MarshalPKIXPublicKey(&key.PublicKey))
	digest := sha256.Sum256([]byte("pu"))
	proof := must[[]byte](t)(ecdsa.SignASN1(rand.Reader, key, digest[:]))
	stub := stubOf(t, key)
	broken := append([]byte{}, stub...)
	broken[len(broken)-1] ^= 1
	const either = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
	for name, test := range map[string]struct {
		change func(*certificatesv1beta1.PodCertificateRequestSpec)
		want   string
	}{
		"good": {func(*certificatesv1beta1.PodCertificateRequestSpec) {}, ""},
		"a pair": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.StubPKCS10Request, s.PKIXPublicKey, s.ProofOfPossession = nil, public, proof
		}, ""},
		"no key": {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.StubPKCS10Request = nil }, either},
		"both": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.PKIXPublicKey, s.ProofOfPossession = public, proof
		}, either},
		"half a pair": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.StubPKCS10Request, s.PKIXPublicKey = nil, public
		}, either},
		"no proof": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.StubPKCS10Request, s.PKIXPublicKey, s.ProofOfPossession = nil, public, []byte("x")
		}, "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"},
		"garbage":          {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.StubPKCS10Request = []byte("x") }, "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"},
		"forged":           {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.StubPKCS10Request = broken }, "spec.stubPKCS10Request: Invalid value: invalid signature"},
		"a weak curve":     {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.StubPKCS10Request = stubOf(t, weak) }, `spec.stubPKCS10Request: Invalid value: "curve P-224": elliptic public keys must use curve P256, P384, or P521`},
		"too long":         {func(s *certificatesv1beta1.PodCertificateRequestSpec) { s.StubPKCS10Request = make([]byte, 10<<10+1) }, "spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"},
		"too short a life": {func(s *certificatesv1beta1.PodCertificateRequestSpec) { *s.MaxExpirationSeconds = 3599 }, "spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"},
		"Kubernetes' own": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.SignerName, *s.MaxExpirationSeconds = "a.kubernetes.io/x", 86401
		}, "spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"},
		"names": {func(s *certificatesv1beta1.PodCertificateRequestSpec) {
			s.SignerName, s.PodUID, s.NodeUID, s.UnverifiedUserAnnotations = "x", "", "12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890", map[string]string{"a": "b"}
		}, "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'\n" +
			"spec.unverifiedUserAnnotations: Invalid value: \"a\": must be a domain-prefixed key (such as \"acme.io/foo\")\n" +
			"spec.podUID: Invalid value: \"\": must not be empty\nspec.nodeUID: Too long: may not be more than 128 bytes"},
	} {
		r := asks(stub)
		test.change(&r.Spec)
		if got := listed(k.ValidateCreate(r)); got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", name, got, test.want)
		}
	}
	changed := asks(stub)
	changed.Spec.PodName = "q"
	if got := listed(k.ValidateUpdate(changed, asks(stub))); !strings.HasSuffix(got, "field is immutable") {
		t.Errorf("a changed spec: %s", got)
	}
}

// What Kubernetes 1.36 says of how requests end.
func TestPodCertificatesAreIssued(t *testing.T) {
	t.Parallel()
	k := podRequests(t)
	now := time.Unix(1000, 0).UTC() // the kinds' clock
	key := newKey(t, elliptic.P384())
	certificate := func(key *ecdsa.PrivateKey, begin time.Time, life time.Duration) string {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: begin, NotAfter: begin.Add(life)}
		der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	ended := func(types ...string) (list []metav1.Condition) {
		for _, c := range types {
			list = append(list, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: *at(0)})
		}
		return list
	}
	chain := certificate(key, now, 2*time.Hour)
	issued := func(chain string, begin, refresh, end *metav1.Time) certificatesv1beta1.PodCertificateRequestStatus {
		return certificatesv1beta1.PodCertificateRequestStatus{Conditions: ended("Issued"), CertificateChain: chain, NotBefore: begin, BeginRefreshAt: refresh, NotAfter: end}
	}
	good := issued(chain, at(0), at(time.Hour), at(2*time.Hour))
	shown := func(chain string) string { return strings.ReplaceAll(chain, "\n", "\\n") }
	type status = certificatesv1beta1.PodCertificateRequestStatus
	old := time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		status, before status
		want           string
	}{
		"nothing": {}, "good": {status: good}, "denied": {status: status{Conditions: ended("Denied")}}, "the same": {status: good, before: good},
		"two ends":   {status: status{Conditions: ended("Denied", "Failed")}, want: `status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or "Failed"`},
		"no end":     {status: status{Conditions: ended("Foo")}, want: `status.conditions.[0].type: Unsupported value: "Foo": supported values: "Issued", "Denied", "Failed"`},
		"unfinished": {status: status{CertificateChain: chain}, want: `status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"`},
		"a gift":     {status: status{Conditions: ended("Failed"), NotBefore: at(0)}, want: "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"},
		"again":      {status: status{Conditions: ended("Denied")}, before: good, want: "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"},
		"empty":      {status: issued("", nil, nil, nil), want: `status.certificateChain: Invalid value: "": issued certificate chain must contain at least one certificate`},
		"no times": {status: issued(chain, nil, nil, nil), want: "status.notBefore: Required value: must be present and consistent with the issued certificate\n" +
			"status.notAfter: Required value: must be present and consistent with the issued certificate\nstatus.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]"},
		"another begin": {status: issued(chain, at(time.Second), at(time.Hour), at(2*time.Hour)), want: `status.notBefore: Invalid value: "1970-01-01T00:16:41Z": must be set to the NotBefore time encoded in the leaf certificate`},
		"another end":   {status: issued(chain, at(0), at(time.Hour), at(time.Hour)), want: `status.notAfter: Invalid value: "1970-01-01T01:16:40Z": must be set to the NotAfter time encoded in the leaf certificate`},
		"early":         {status: issued(chain, at(0), at(time.Minute), at(2*time.Hour)), want: `status.beginRefreshAt: Invalid value: "1970-01-01T00:17:40Z": must be at least 10 minutes after status.notBefore`},
		"late":          {status: issued(chain, at(0), at(2*time.Hour), at(2*time.Hour)), want: `status.beginRefreshAt: Invalid value: "1970-01-01T02:16:40Z": must be at least 10 minutes before status.notAfter`},
		"short": {status: issued(certificate(key, now, time.Minute), at(0), at(0), at(time.Minute)),
			want: "status.certificateChain: Invalid value: 60000000000: leaf certificate lifetime must be >= 1 hour"},
		"long": {status: issued(certificate(key, now, 25*time.Hour), at(0), at(time.Hour), at(25*time.Hour)),
			want: "status.certificateChain: Invalid value: 90000000000000: leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)"},
		"long ago": {status: issued(certificate(key, old, 2*time.Hour), &metav1.Time{Time: old}, at(0), &metav1.Time{Time: old.Add(2 * time.Hour)}),
			want: `status.notBefore: Invalid value: "1969-12-31T00:00:00Z": must be set to within 5 minutes of kube-apiserver's current time`},
		"not a certificate": {status: issued("-----BEGIN X-----\nAAAA\n-----END X-----\n", nil, nil, nil),
			want: `status.certificateChain: Invalid value: "-----BEGIN X-----\nAAAA\n-----END X-----\n": issued certificate chain must consist entirely of CERTIFICATE PEM blocks`},
		"rubbish behind": {status: issued(chain+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", at(0), at(time.Hour), at(2*time.Hour)),
			want: `status.certificateChain: Invalid value: "` + shown(chain) + `-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": intermediate certificate does not parse as valid X.509`},
	} {
		r, before := asks(stubOf(t, key)), asks(nil)
		r.Status, before.Status = test.status, test.before
		if got := listed(k.Status.ValidateUpdate(r, before)); got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", name, got, test.want)
		}
	}
	foreign := asks(stubOf(t, newKey(t, elliptic.P256())))
	foreign.Status = good
	if got := listed(k.Status.ValidateUpdate(foreign, asks(nil))); !strings.HasSuffix(got, "leaf certificate was not issued to the requested public key") {
		t.Errorf("a foreign key: %s", got)
	}
}
