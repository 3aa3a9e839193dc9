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
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Poster asks the webhook.
type Poster interface {
	Post(ctx context.Context, question, answer any) error
}

// Config is what an authorizer needs.
type Config struct {
	Poster Poster
	// Version of SubjectAccessReview that the webhook understands: v1 or v1beta1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers hold; 0 asks every time.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// Timeout bounds a question, retries included; default 30 s.
	Timeout time.Duration
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
	// largest is the longest question, in bytes of JSON, whose answer is remembered: clients choose what they ask for.
	largest    = 10000
	askTimeout = 30 * time.Second
)

// Authorizer implements authz.Authorizer. It has no opinion where the webhook has none, or cannot be asked.
type Authorizer struct {
	Config
	answers *cache.LRUExpireCache
}

// New returns an authorizer.
func New(cfg Config) (*Authorizer, error) {
	if cfg.Version != "v1" && cfg.Version != "v1beta1" {
		return nil, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are \"v1\", \"v1beta1\"", cfg.Version)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = askTimeout
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
		matches, err := a.Matches.Eval(ctx, &authorizationv1.SubjectAccessReview{TypeMeta: typeMeta("v1"), Spec: spec})
		switch {
		case err != nil:
			return a.onError(err)
		case !matches:
			return authz.NoOpinion, "", nil
		}
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return a.onError(err)
	}
	status, ok := a.known(key)
	if !ok {
		if status, err = a.ask(ctx, spec); err != nil {
			return a.onError(err)
		}
		a.remember(key, status)
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
	a.Metrics.failOpen(a.Name, err)
	return authz.NoOpinion, "", err
}

func typeMeta(version string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: authorizationv1.GroupName + "/" + version, Kind: "SubjectAccessReview"}
}

// RulesFor implements authz.Lister: a webhook does not list what it would allow.
func (*Authorizer) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, true, errors.New("webhook authorizer does not support user rule resolution")
}

func (a *Authorizer) known(key []byte) (authorizationv1.SubjectAccessReviewStatus, bool) {
	if got, ok := a.answers.Get(string(key)); ok {
		return got.(authorizationv1.SubjectAccessReviewStatus), true
	}
	return authorizationv1.SubjectAccessReviewStatus{}, false
}

func (a *Authorizer) remember(key []byte, status authorizationv1.SubjectAccessReviewStatus) {
	ttl := a.UnauthorizedTTL
	if status.Allowed && !status.Denied {
		ttl = a.AuthorizedTTL
	}
	if ttl > 0 && len(key) <= largest {
		a.answers.Add(string(key), status, ttl)
	}
}

func (a *Authorizer) ask(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: typeMeta(a.Version), Spec: spec,
	}
	var reply authorizationv1.SubjectAccessReview
	start := a.Clock.Now()
	err := a.post(ctx, review, &reply)
	a.Metrics.asked(a.Name, a.Clock.Since(start), err)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return reply.Status, nil
}

// post sends the review; v1beta1 calls the user's groups "group".
func (a *Authorizer) post(ctx context.Context, review *authorizationv1.SubjectAccessReview, reply any) error {
	if a.Version == "v1" {
		return a.Poster.Post(ctx, review, reply)
	}
	text, err := json.Marshal(review)
	if err != nil {
		return err
	}
	var old map[string]any
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	if spec, ok := old["spec"].(map[string]any); ok {
		if groups, ok := spec["groups"]; ok {
			spec["group"] = groups
			delete(spec, "groups")
		}
	}
	return a.Poster.Post(ctx, old, reply)
}

func specOf(what *authz.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: what.User.Name, UID: what.User.UID, Groups: what.User.Groups}
	for key, values := range what.User.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	if what.Path != "" {
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
