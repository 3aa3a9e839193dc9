package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
)

// secretIssuer is whom the tokens in Secrets name, in every cluster.
const secretIssuer = "kubernetes/serviceaccount"

// secretClaims are those of a token that a Secret holds
// (https://kubernetes.io/docs/concepts/security/service-accounts/#get-a-token). It has no end and no audience, and is good while the Secret holds it.
type secretClaims struct {
	Issuer         string `json:"iss"`
	Namespace      string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret         string `json:"kubernetes.io/serviceaccount/secret.name"`
	ServiceAccount string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID            string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Subject        string `json:"sub"`
}

// issueSecret fills the request's status with what the Secret is to hold to which it is bound.
func (a *Authority) issueSecret(ctx context.Context, account registry.Object, request *authenticationv1.TokenRequest) error {
	var b bound
	b.Namespace = account.GetNamespace()
	if err := a.bind(ctx, account, request.Spec.BoundObjectRef, &b); err != nil {
		return err
	}
	secret, err := a.secret(ctx, &b)
	if err != nil {
		return err
	}
	if secret == nil || secret.Annotations[corev1.ServiceAccountNameKey] != account.GetName() {
		return apierrors.NewBadRequest(fmt.Sprintf("the annotation %s is for tokens bound to a Secret of the type %s for service account %q",
			object.SecretTokenAnnotation, corev1.SecretTypeServiceAccountToken, account.GetName()))
	}
	signed, err := sign(a.Key, secretClaims{
		Issuer: secretIssuer, Namespace: account.GetNamespace(), Secret: secret.Name, ServiceAccount: account.GetName(), UID: string(account.GetUID()),
		Subject: authn.ServiceAccountName(account.GetNamespace(), account.GetName()),
	})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	expires := a.Clock.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second) // of what was asked for; the field has to have a value
	request.Status = authenticationv1.TokenRequestStatus{Token: signed, ExpirationTimestamp: metav1.NewTime(expires.Truncate(time.Second))}
	return nil
}

// verifySecret goes on with Verify, for the token of a Secret.
func (a *Authority) verifySecret(ctx context.Context, token string, c *secretClaims, audiences []string) (*authn.User, []string, error) {
	authn.Remark(ctx, legacyNote, c.Subject)
	a.legacy.all.Inc()
	meant := authn.Common(a.Audiences, audiences)
	if len(meant) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", a.Audiences, audiences)
	}
	if err := c.whole(); err != nil {
		return nil, nil, err
	}
	secret, err := a.holding(ctx, token, c)
	if err != nil {
		return nil, nil, err
	}
	account, err := a.owner(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	user := &authn.User{Name: c.Subject, UID: c.UID, Groups: authn.ServiceAccountGroups(c.Namespace)}
	if err := a.held(ctx, secret, account, user); err != nil {
		return nil, nil, err
	}
	a.good.Inc()
	return user, meant, nil
}

// whole says which claim is missing, or contradicts the others.
func (c *secretClaims) whole() error {
	for _, claim := range []struct{ name, value string }{
		{"sub", c.Subject}, {"namespace", c.Namespace}, {"secretName", c.Secret}, {"serviceAccountName", c.ServiceAccount}, {"serviceAccountUID", c.UID},
	} {
		if claim.value == "" {
			return errors.New(claim.name + " claim is missing")
		}
	}
	if c.Subject != authn.ServiceAccountName(c.Namespace, c.ServiceAccount) {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// holding returns the Secret that holds the token. One that does not may have got it a moment ago, by another API server.
func (a *Authority) holding(ctx context.Context, token string, c *secretClaims) (*corev1.Secret, error) {
	secret, err := a.known(ctx, token, c)
	if !errors.Is(err, errOther) || a.Fresh == nil {
		return secret, err
	}
	if err := a.Fresh(ctx); err != nil {
		return nil, err
	}
	return a.known(ctx, token, c)
}

func (a *Authority) known(ctx context.Context, token string, c *secretClaims) (*corev1.Secret, error) {
	obj, err := a.Objects.Get(ctx, "", "secrets", c.Namespace, c.Secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errSecretGone
	case err != nil:
		return nil, err
	}
	secret, ok := obj.(*corev1.Secret)
	switch {
	case !ok || secret.DeletionTimestamp != nil:
		return nil, errSecretGone
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0:
		return nil, errOther
	}
	return secret, nil
}

var (
	// errSecretGone says that the Secret is gone which held a token, errOther that it holds another one.
	errSecretGone = errors.New("Token has been invalidated")
	errOther      = errors.New("Token does not match server's copy")
)

// owner returns the account whose token it is.
func (a *Authority) owner(ctx context.Context, c *secretClaims) (*corev1.ServiceAccount, error) {
	obj, err := a.Objects.Get(ctx, "", "serviceaccounts", c.Namespace, c.ServiceAccount)
	if err != nil {
		return nil, err
	}
	account, ok := obj.(*corev1.ServiceAccount)
	switch {
	case !ok || account.DeletionTimestamp != nil:
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", c.Namespace, c.ServiceAccount)
	case string(account.UID) != c.UID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.UID, c.UID)
	}
	return account, nil
}
