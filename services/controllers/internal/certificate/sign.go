package certificate

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// shortest is the least that a certificate lasts, whatever is asked for.
const shortest = 10 * time.Minute

// signing issues certificates, request by request.
type signing struct {
	client    *object.Client
	requests  *object.Informer[*request]
	authority Source
	longest   time.Duration
	clock     clock.Clock
}

// NewSigning returns the controller that signs with the authority as it is at each signature, for at most as long as longest.
func NewSigning(env *controller.Env, authority Source, longest time.Duration) controller.Unit {
	c := &signing{env.Client, object.InformerFor(env.Informers, object.CertificateSigningRequest), authority, longest, env.Clock}
	return unit(env, c.requests, "csrsigning", c.reconcile)
}

// unit is a controller with a queue of requests.
func unit(env *controller.Env, requests *object.Informer[*request], name string, act func(context.Context, string) (time.Duration, error)) controller.Unit {
	queue := reconcile.New(reconcile.Config{Name: name, Kind: "CertificateSigningRequest", Workers: 1, Reconcile: act, Metrics: env.Metrics})
	controller.Handle(env, requests, func(_, now *request) {
		if now != nil {
			queue.Enqueue(now.Name, requests.Trace(now))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

func (c *signing) sign(asked *x509.CertificateRequest, r *request) ([]byte, error) {
	authority, err := Read(c.authority)
	if err != nil {
		return nil, err
	}
	return authority.sign(asked, r.Spec.Usages, lasting(r, c.longest), c.clock.Now())
}

func (c *signing) reconcile(ctx context.Context, name string) (time.Duration, error) {
	r, ok := c.requests.Get("", name)
	if !ok || !wantsSignature(r) {
		return 0, nil
	}
	next := r.DeepCopy()
	asked, err := parse(r)
	if err == nil {
		err = signers[r.Spec.SignerName](asked, r.Spec.Usages)
	}
	if err != nil {
		if r.Spec.SignerName == legacyUnknownSigner {
			return 0, nil // whose requests may be for somebody else to sign
		}
		now := metav1.NewTime(c.clock.Now())
		next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message: err.Error(), LastUpdateTime: now, LastTransitionTime: now,
		})
	} else if next.Status.Certificate, err = c.sign(asked, r); err != nil {
		return 0, fmt.Errorf("sign %s: %w", name, err)
	}
	if _, err := object.For(c.client, object.CertificateSigningRequest).UpdateStatus(ctx, next); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	return 0, nil
}

// wantsSignature reports whether a request is approved for one of the signers, and neither signed nor failed.
func wantsSignature(r *request) bool {
	return signers[r.Spec.SignerName] != nil && len(r.Status.Certificate) == 0 && condition(r, certificatesv1.CertificateApproved) != nil &&
		condition(r, certificatesv1.CertificateDenied) == nil && condition(r, certificatesv1.CertificateFailed) == nil
}

// lasting is how long the certificate of a request is to last.
func lasting(r *request, longest time.Duration) time.Duration {
	if r.Spec.ExpirationSeconds == nil {
		return longest
	}
	return min(longest, max(shortest, time.Duration(*r.Spec.ExpirationSeconds)*time.Second))
}
