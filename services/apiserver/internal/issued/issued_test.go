package issued

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
)

func certificate(t *testing.T, lasts time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	begins := time.Unix(1_700_000_000, 0)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begins, NotAfter: begins.Add(lasts)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestDurations(t *testing.T) {
	t.Parallel()
	const client, own = "kubernetes.io/kube-apiserver-client", "example.com/own"
	request := func(signer string, asked int32, certificate []byte) *certificatesv1.CertificateSigningRequest {
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
		if asked > 0 {
			r.Spec.ExpirationSeconds = &asked
		}
		r.Status.Certificate = certificate
		return r
	}
	hour := certificate(t, time.Hour)
	for name, c := range map[string]struct {
		signer             string
		asked              int32
		before, now        []byte
		label              string
		requested, honored float64
	}{
		"as long as asked for":      {client, 3600, nil, hour, client, 1, 1},
		"began five minutes sooner": {client, 3600, nil, certificate(t, 65*time.Minute), client, 1, 1},
		"a signer's own way":        {client, 86400, nil, hour, client, 1, 0},
		"another signer":            {own, 3600, nil, hour, "other", 1, 1},
		"nothing asked for":         {client, 0, nil, hour, client, 0, 0},
		"nothing issued":            {client, 3600, nil, nil, client, 0, 0},
		"issued before":             {client, 3600, hour, hour, client, 0, 0},
		"what is no certificate":    {client, 3600, nil, []byte("x"), client, 1, 0},
	} {
		d := NewDurations(prometheus.NewRegistry())
		d.Written(request(c.signer, c.asked, c.now), request(c.signer, c.asked, c.before))
		requested, honored := testutil.ToFloat64(d.requested.WithLabelValues(c.label)), testutil.ToFloat64(d.honored.WithLabelValues(c.label))
		if requested != c.requested || honored != c.honored {
			t.Errorf("%s: %v requested, %v honored; want %v and %v", name, requested, honored, c.requested, c.honored)
		}
	}
}
