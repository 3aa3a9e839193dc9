// Package issued counts the certificates that signers have written into CertificateSigningRequests, and whether these last as long as was asked for.
package issued

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/registry"
)

// backdating is how much longer than it was asked for a certificate may last, beside a twentieth: signers have them begin a little earlier.
const backdating = 5 * time.Minute

// Durations counts certificates of requests with expirationSeconds, by signer, under Kubernetes' names.
type Durations struct {
	requested, honored *prometheus.CounterVec
}

// NewDurations registers the metrics; a nil registerer leaves them unregistered.
func NewDurations(registerer prometheus.Registerer) *Durations {
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_certificates_registry_" + name, Help: help}, []string{"signerName"})
		if registerer == nil {
			return v
		}
		return obs.Register(registerer, v)
	}
	return &Durations{
		requested: vec("csr_requested_duration_total", "Certificates that were issued to requests which say how long they are to last, by signer."),
		honored:   vec("csr_honored_duration_total", "Those of them that last as long."),
	}
}

// Written is told of each update of a request that was committed. A certificate counts when it is written first.
func (d *Durations) Written(obj, old registry.Object) {
	now, before := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	asked := before.Spec.ExpirationSeconds
	if asked == nil || len(before.Status.Certificate) > 0 || len(now.Status.Certificate) == 0 {
		return
	}
	signer := label(before.Spec.SignerName)
	d.requested.WithLabelValues(signer).Inc()
	if lasts, ok := duration(now.Status.Certificate); ok && honors(time.Duration(*asked)*time.Second, lasts) {
		d.honored.WithLabelValues(signer).Inc()
	}
}

// label keeps Kubernetes' own signers apart; clients must not make labels of others.
func label(signer string) string {
	if strings.HasPrefix(signer, "kubernetes.io/") {
		return signer
	}
	return "other"
}

// duration tells how long the first certificate of a chain lasts, if it can be read.
func duration(chain []byte) (time.Duration, bool) {
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return 0, false
		}
		return c.NotAfter.Sub(c.NotBefore), true
	}
	return 0, false
}

func honors(asked, lasts time.Duration) bool {
	return (asked - lasts).Abs() < backdating+asked/20
}
