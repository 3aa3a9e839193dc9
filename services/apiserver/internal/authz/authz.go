// Package authz decides whether a user may do what a request asks for.
package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/services/apiserver/internal/authn"
)

// Attributes are what a decision rests on.
type Attributes struct {
	User *authn.User
	// Verb is get, list, watch, create, update, patch, delete, deletecollection or connect.
	Verb                  string
	Group, Version        string
	Resource, Subresource string
	Namespace, Name       string
	// Path is the URL's path where no resource is asked for, as "/healthz"; then Verb is the HTTP method in lower case.
	Path string
	// NoResource says that a path is asked for even where Path is empty, as a review may have it.
	NoResource bool
	// FieldSelector and LabelSelector are those of a list, watch or deletecollection, as text.
	FieldSelector, LabelSelector string
	// Explain asks for the reason of what is allowed, too.
	Explain bool
}

// ForPath reports whether a path is asked for, and no resource.
func (a *Attributes) ForPath() bool { return a.NoResource || a.Path != "" }

// For returns the attributes of a user who wants the access.
func For(user *authn.User, want authn.Access) *Attributes {
	return &Attributes{
		User: user, Verb: want.Verb, Path: want.Path, Group: want.Group, Version: want.Version, Resource: want.Resource, Subresource: want.Subresource,
		Namespace: want.Namespace, Name: want.Name, FieldSelector: want.FieldSelector, LabelSelector: want.LabelSelector,
	}
}

// NamespaceOf returns the namespace that a request is in: a namespace is in itself, so that who may do everything in it may read it.
func NamespaceOf(group, resource, namespace, name string) string {
	if group == "" && resource == "namespaces" {
		return name
	}
	return namespace
}

// Lister tells what a user may do. It reports incomplete where it cannot tell all.
type Lister interface {
	RulesFor(ctx context.Context, user *authn.User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error)
}

// Decision is an authorizer's answer.
type Decision int8

// The decisions. NoOpinion leaves it to the next authorizer of the chain.
const (
	NoOpinion Decision = iota
	Allow
	Deny
)

// Authorizer decides on requests.
type Authorizer interface {
	// Authorize returns a decision and, for Deny and NoOpinion, a reason that the client is shown.
	Authorize(ctx context.Context, a *Attributes) (Decision, string, error)
}

// Chain asks its authorizers in order; the first that has an opinion decides, and nobody's opinion is a refusal.
type Chain []Authorizer

// Authorize implements Authorizer.
func (c Chain) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	var reasons string
	var errs []error
	for _, next := range c {
		decision, reason, err := next.Authorize(ctx, a)
		if err != nil {
			errs = append(errs, err)
		}
		if decision != NoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			if reasons != "" {
				reasons += "\n"
			}
			reasons += reason
		}
	}
	return NoOpinion, reasons, utilerrors.NewAggregate(errs)
}

// RulesFor implements Lister with the rules that its authorizers tell; one that tells none leaves it incomplete.
func (c Chain) RulesFor(ctx context.Context, user *authn.User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error) {
	var errs []error
	for _, next := range c {
		lister, ok := next.(Lister)
		if !ok {
			incomplete = true
			continue
		}
		more, part, err := lister.RulesFor(ctx, user, namespace)
		rules, incomplete = append(rules, more...), incomplete || part
		if err != nil {
			errs = append(errs, err)
		}
	}
	return rules, incomplete, utilerrors.NewAggregate(errs)
}

// everything is the rules of those who may do all.
func everything() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}
}

// Groups allows everything to the members of the named groups.
type Groups []string

// Authorize implements Authorizer.
func (g Groups) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	for _, group := range g {
		if a.User.In(group) {
			return Allow, "", nil
		}
	}
	return NoOpinion, "", nil
}

// RulesFor implements Lister. As in Kubernetes, that such a group may do everything is in nobody's list.
func (Groups) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, false, nil
}

// AlwaysAllow allows everything.
type AlwaysAllow struct{}

// RulesFor implements Lister.
func (AlwaysAllow) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return everything(), false, nil
}

// AlwaysDeny allows nothing.
type AlwaysDeny struct{}

// Authorize implements Authorizer.
func (AlwaysDeny) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return NoOpinion, "Everything is forbidden.", nil
}

// RulesFor implements Lister.
func (AlwaysDeny) RulesFor(context.Context, *authn.User, string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, false, nil
}

// Authorize implements Authorizer.
func (AlwaysAllow) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return Allow, "", nil
}

// sanitizer keeps what a browser would take for HTML out of the text, as Kubernetes does.
var sanitizer = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// Refused is the answer to a request that is not allowed: 403, or, where the authorizers could not say because of err, a 500 that names
// the URI.
func Refused(a *Attributes, uri, reason string, err error) error {
	if err == nil {
		return Forbidden(a, reason)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: sanitizer.Replace(apistatus.Undecided + strings.Trim(strconv.Quote(uri), "\"") + "\": " + err.Error()),
	}}
}

// Require returns nil where the authorizer allows a, and the 403 of its refusal where it does not. An authorizer that fails refuses.
func Require(ctx context.Context, authorizer Authorizer, a *Attributes) error {
	decision, reason, err := authorizer.Authorize(ctx, a)
	switch {
	case decision == Allow:
		return nil
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return Forbidden(a, reason)
}

// Forbidden is the 403 that a refusal answers, with Kubernetes' text.
func Forbidden(a *Attributes, reason string) error {
	if a.ForPath() {
		text := sanitizer.Replace(fmt.Sprintf("User %q cannot %s path %q", a.User.Name, a.Verb, a.Path))
		if reason != "" {
			text += ": " + reason
		}
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(text))
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", a.User.Name, a.Verb, resource, a.Group)
	if a.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", a.Namespace)
	} else {
		text += " at the cluster scope"
	}
	text = sanitizer.Replace(text)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(text))
}
