// Package hook asks a webhook for decisions, by SubjectAccessReviews.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/remote"
)

// Poster asks the webhook.
type Poster interface {
	Post(ctx context.Context, question, answer runtime.Object, tried func(remote.Try)) error
}

// Config is what an authorizer needs.
type Config struct {
	Poster Poster
	// Version of SubjectAccessReview that the webhook understands: v1 or v1beta1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers hold; 0 asks every time.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Name tells webhooks apart in metrics.
	Name string
	// Matches says which requests are for the webhook; nil is all.
	Matches *authorizationcel.CELMatcher
	// DenyOnError refuses what the webhook cannot be asked about; otherwise it is left to the next authorizer.
	DenyOnError bool
	Clock       clock.Clock
	// Metrics may be shared by several webhooks, and may be nil.
	Metrics *Metrics
}

const (
	remembered = 8192
	// largest bounds what clients choose of a question whose answer is remembered, in bytes.
	largest = 10000
)

// Authorizer implements authz.Authorizer. It has no opinion where the webhook has none, or cannot be asked.
type Authorizer struct {
	Config
	answers *cache.LRUExpireCache
}

// New returns an authorizer.
func New(cfg Config) (*Authorizer, error) {
	if _, known := versions[cfg.Version]; !known {
		return nil, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are \"v1\", \"v1beta1\"", cfg.Version)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Matches != nil {
		cfg.Matches.AuthorizerType, cfg.Matches.AuthorizerName, cfg.Matches.Metrics = "Webhook", cfg.Name, cfg.Metrics
	}
	return &Authorizer{Config: cfg, answers: cache.NewLRUExpireCacheWithClock(remembered, cfg.Clock)}, nil
}

// Authorize implements authz.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, what *authz.Attributes) (authz.Decision, string, error) {
	spec := specOf(what)
	if a.Matches != nil {
		matches, err := a.Matches.Eval(ctx, &authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}, Spec: spec})
		switch {
		case err != nil:
			return a.onError(err)
		case !matches:
			return authz.NoOpinion, "", nil
		}
	}
	status, err := a.status(ctx, what, spec)
	if err != nil {
		return a.onError(err)
	}
	switch {
	case status.Allowed && status.Denied:
		return authz.Deny, status.Reason, errors.New("webhook subject access review returned both allow and deny response")
	case status.Denied:
		return authz.Deny, status.Reason, nil
	case status.Allowed:
		return authz.Allow, status.Reason, nil
	}
	return authz.NoOpinion, status.Reason, nil
}

// onError is the decision where the webhook cannot be asked.
func (a *Authorizer) onError(err error) (authz.Decision, string, error) {
	if a.DenyOnError {
		return authz.Deny, "", err
	}
	return authz.NoOpinion, "", err
}

// RulesFor implements authz.Lister: a webhook does not list what it would allow.
func (*Authorizer) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, true, errors.New("webhook authorizer does not support user rule resolution")
}

// status is what the webhook says, or said.
func (a *Authorizer) status(ctx context.Context, what *authz.Attributes, spec authorizationv1.SubjectAccessReviewSpec) (status authorizationv1.SubjectAccessReviewStatus, err error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return status, err
	}
	if got, ok := a.answers.Get(string(key)); ok {
		return got.(authorizationv1.SubjectAccessReviewStatus), nil
	}
	if status, err = a.ask(ctx, spec); err == nil {
		a.remember(what, key, status)
	}
	return status, err
}

func (a *Authorizer) remember(what *authz.Attributes, key []byte, status authorizationv1.SubjectAccessReviewStatus) {
	ttl := a.UnauthorizedTTL
	if status.Allowed {
		ttl = a.AuthorizedTTL
	}
	if ttl > 0 && chosen(what) < largest {
		a.answers.Add(string(key), status, ttl)
	}
}

// chosen is how many bytes of the question the client chooses.
func chosen(what *authz.Attributes) (size int) {
	for _, text := range []string{what.Namespace, what.Verb, what.Group, what.Version, what.Resource, what.Subresource, what.Name, what.Path} {
		size += len(text)
	}
	return size
}

func (a *Authorizer) ask(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	var last string
	status, err := versions[a.Version](spec, func(question, reply runtime.Object) error {
		return a.Poster.Post(ctx, question, reply, func(try remote.Try) { last = a.Metrics.tried(ctx, a.Name, try) })
	})
	if err != nil && !a.DenyOnError && ctx.Err() == nil {
		a.Metrics.failOpen(a.Name, last)
	}
	return status, err
}

func specOf(what *authz.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: what.User.Name, UID: what.User.UID, Groups: what.User.Groups}
	for key, values := range what.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	if what.ForPath() {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: what.Path, Verb: what.Verb}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: what.Namespace, Verb: what.Verb, Group: what.Group, Version: what.Version, Resource: what.Resource,
		Subresource: what.Subresource, Name: what.Name,
	}
	if fields := fieldRequirements(what.FieldSelector); len(fields) > 0 {
		spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: fields}
	}
	if labels := labelRequirements(what.LabelSelector); len(labels) > 0 {
		spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: labels}
	}
	return spec
}
