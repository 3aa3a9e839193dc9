// Package accounttoken puts tokens into the Secrets that ask for one: those of the type kubernetes.io/service-account-token. The
// token is bound to the Secret, and good for as long as that and the account are there.
package accounttoken

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// lifetime is the longest that a token may be asked for, in seconds: where a program outside signs tokens, or an API server knows no other form yet, those in
// Secrets end, but are meant not to.
const lifetime = int64(1) << 32

// filler reconciles Secrets, by namespace/name.
type filler struct {
	client   *object.Client
	ca       controller.Authorities
	secrets  *object.Informer[*corev1.Secret]
	accounts *object.Informer[*corev1.ServiceAccount]
	queue    *reconcile.Controller
	// gone has Secrets that are no longer there, by namespace/name/account/uid of the account.
	gone *reconcile.Controller
}

// New returns the controller; ca goes into the Secrets too, where it is not nil.
func New(env *controller.Env, ca controller.Authorities) controller.Unit {
	if ca == nil {
		ca = &pki.Authorities{}
	}
	c := &filler{
		client: env.Client, ca: ca,
		secrets:  object.InformerFor(env.Informers, object.Secret, object.Option{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}),
		accounts: object.InformerFor(env.Informers, object.ServiceAccount),
	}
	c.queue = reconcile.New(reconcile.Config{Name: "accounttoken", Kind: "Secret", Workers: 2, Reconcile: c.reconcile, Metrics: env.Metrics})
	c.gone = reconcile.New(reconcile.Config{Name: "accounttoken-reference", Kind: "Secret", Workers: 1, Reconcile: c.unlist, Metrics: env.Metrics})
	controller.Handle(env, c.secrets, func(old, now *corev1.Secret) {
		if now != nil {
			c.queue.Enqueue(now.Namespace+"/"+now.Name, c.secrets.Trace(now))
		}
		if old != nil && (now == nil || now.UID != old.UID) {
			c.gone.Enqueue(listing{old.Namespace, old.Name, old.Annotations[corev1.ServiceAccountNameKey], old.Annotations[corev1.ServiceAccountUIDKey]}.key(), c.secrets.Trace(old))
		}
	})
	controller.Handle(env, c.accounts, func(old, now *corev1.ServiceAccount) {
		account := now
		if account == nil {
			account = old
		}
		for _, secret := range c.secrets.List(account.Namespace) {
			if secret.Annotations[corev1.ServiceAccountNameKey] == account.Name {
				c.queue.Enqueue(secret.Namespace+"/"+secret.Name, c.accounts.Trace(account))
			}
		}
	})
	replaced := func(ctx context.Context) error {
		return ca.Follow(ctx, func() {
			for _, secret := range c.secrets.List("") {
				c.queue.Enqueue(secret.Namespace+"/"+secret.Name, trace.SpanContext{})
			}
		})
	}
	return controller.Unit{Queues: []*reconcile.Controller{c.queue, c.gone}, Loops: []func(context.Context) error{replaced}}
}

func (c *filler) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, _ := strings.Cut(key, "/")
	secret, ok := c.secrets.Get(namespace, name)
	if !ok {
		return 0, nil
	}
	account, err := c.account(ctx, secret)
	if err != nil {
		return 0, err
	}
	switch plan(secret, account, c.ca.Now().PEM) {
	case remove:
		err := object.For(c.client, object.Secret).Delete(ctx, namespace, name, metav1.DeleteOptions{Preconditions: object.AsSeen(secret)})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, fmt.Errorf("remove Secret %s, whose service account is gone: %w", key, err)
		}
	case fill:
		return 0, c.fill(ctx, secret, account)
	}
	return 0, nil
}

// account returns the one that the Secret names, or nil. One that seems absent is asked for: the cache may be behind, and what is
// removed does not come back. So is one whose uid the Secret has yet to get: with that of an account which is gone it would be removed.
func (c *filler) account(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	account, ok := c.accounts.Get(secret.Namespace, name)
	if ok && secret.Annotations[corev1.ServiceAccountUIDKey] == string(account.UID) {
		return account, nil
	}
	account, err := object.For(c.client, object.ServiceAccount).Get(ctx, secret.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read service account %s/%s: %w", secret.Namespace, name, err)
	}
	return account, nil
}

func (c *filler) fill(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	token := ""
	if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
		request := &authenticationv1.TokenRequest{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{object.SecretTokenAnnotation: "true"}},
			Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: ptr.To(lifetime),
				BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: secret.Name, UID: secret.UID},
			},
		}
		answer := &authenticationv1.TokenRequest{}
		if err := object.For(c.client, object.ServiceAccount).Post(ctx, account.Namespace, account.Name, "token", request, answer); err != nil {
			return fmt.Errorf("ask for a token of service account %s/%s: %w", account.Namespace, account.Name, err)
		}
		token = answer.Status.Token
	}
	_, err := object.For(c.client, object.Secret).Update(ctx, filled(secret, account, c.ca.Now().PEM, token))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
