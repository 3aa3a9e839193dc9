package certificate

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

// How long requests are kept, as Kubernetes keeps them.
const (
	keepApproved = time.Hour
	keepDenied   = time.Hour
	keepFailed   = time.Hour
	keepPending  = 24 * time.Hour
)

// cleaning removes requests that have served.
type cleaning struct {
	client   *object.Client
	requests *object.Informer[*request]
	clock    clock.Clock
}

// NewCleaning returns the controller that removes old requests.
func NewCleaning(env *controller.Env) controller.Unit {
	c := &cleaning{env.Client, object.InformerFor(env.Informers, object.CertificateSigningRequest), env.Clock}
	return unit(env, c.requests, "csrcleaner", c.reconcile)
}

func (c *cleaning) reconcile(ctx context.Context, name string) (time.Duration, error) {
	r, ok := c.requests.Get("", name)
	if !ok {
		return 0, nil
	}
	now := c.clock.Now()
	if end := goes(r); end.After(now) {
		return end.Sub(now), nil
	}
	options := metav1.DeleteOptions{Preconditions: object.AsSeen(r)}
	if err := object.For(c.client, object.CertificateSigningRequest).Delete(ctx, "", name, options); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("remove %s: %w", name, err)
	}
	return 0, nil
}

// goes is when a request is to be removed: some time after the last that was decided of it, and with its certificate.
func goes(r *request) time.Time {
	end := r.CreationTimestamp.Add(keepPending)
	for kind, keep := range map[certificatesv1.RequestConditionType]time.Duration{
		certificatesv1.CertificateApproved: keepApproved, certificatesv1.CertificateDenied: keepDenied, certificatesv1.CertificateFailed: keepFailed,
	} {
		c := condition(r, kind)
		if c == nil || kind == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0 {
			continue // approved and waiting for its signer: pending
		}
		if at := c.LastUpdateTime.Add(keep); at.Before(end) {
			end = at
		}
	}
	if expires, ok := expiry(r.Status.Certificate); ok && expires.Before(end) {
		end = expires
	}
	return end
}

// expiry is when the first certificate of the PEM text ends.
func expiry(text []byte) (time.Time, bool) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return time.Time{}, false
	}
	issued, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return issued.NotAfter, true
}
