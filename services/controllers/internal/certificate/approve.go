package certificate

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

var reviewKind = object.Kind[*authorizationv1.SubjectAccessReview]{
	GVK: authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), Resource: "subjectaccessreviews",
	New: func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
}

// approving approves what nodes ask for themselves, where they may.
type approving struct {
	client   *object.Client
	requests *object.Informer[*request]
	clock    clock.Clock
}

// NewApproving returns the controller that approves the client certificates of nodes.
func NewApproving(env *controller.Env) controller.Unit {
	c := &approving{env.Client, object.InformerFor(env.Informers, object.CertificateSigningRequest), env.Clock}
	return unit(env, c.requests, "csrapproving", c.reconcile)
}

// right is one by which a request is approved by itself.
type right struct {
	applies     func(r *request, asked *x509.CertificateRequest) bool
	subresource string // who asks may create this of certificatesigningrequests
	message     string
}

var rights = []right{
	{func(r *request, asked *x509.CertificateRequest) bool {
		return asked.Subject.CommonName == r.Spec.Username
	}, "selfnodeclient",
		"Auto approving self kubelet client certificate after SubjectAccessReview."},
	{func(*request, *x509.CertificateRequest) bool { return true }, "nodeclient",
		"Auto approving kubelet client certificate after SubjectAccessReview."},
}

func (c *approving) reconcile(ctx context.Context, name string) (time.Duration, error) {
	r, ok := c.requests.Get("", name)
	if !ok || r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(r.Status.Certificate) > 0 ||
		condition(r, certificatesv1.CertificateApproved) != nil || condition(r, certificatesv1.CertificateDenied) != nil {
		return 0, nil
	}
	asked, err := parse(r)
	if err != nil || nodeClientRule(asked, r.Spec.Usages) != nil {
		return 0, nil // for a person to decide
	}
	for _, one := range rights {
		if !one.applies(r, asked) {
			continue
		}
		allowed, err := c.may(ctx, r, one.subresource)
		if err != nil {
			return 0, err
		}
		if allowed {
			return 0, c.approve(ctx, r, one.message)
		}
	}
	return 0, nil
}

// may asks whether who made the request has the right.
func (c *approving) may(ctx context.Context, r *request, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range r.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := object.For(c.client, reviewKind).Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create", Subresource: subresource, Version: "*",
		},
	}})
	if err != nil {
		return false, fmt.Errorf("review the right to %s of %s: %w", subresource, r.Name, err)
	}
	return review.Status.Allowed, nil
}

func (c *approving) approve(ctx context.Context, r *request, message string) error {
	next, now := r.DeepCopy(), metav1.NewTime(c.clock.Now())
	next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message, LastUpdateTime: now, LastTransitionTime: now,
	})
	if _, err := object.For(c.client, object.CertificateSigningRequest).UpdateSubresource(ctx, "approval", next); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("approve %s: %w", r.Name, err)
	}
	return nil
}
