// Package review answers the reviews: resources that are only ever created, and whose status is an answer about who
// somebody is or what they may do. Nothing is stored.
package review

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Authenticator finds out who a call or a token speaks for.
type Authenticator interface {
	Authenticate(ctx context.Context) (*authn.User, error)
	Token(ctx context.Context, token string) (*authn.User, error)
}

// Server answers reviews, and hands everything else to the service that it stands in front of.
type Server struct {
	apiv1.ObjectServiceServer
	Authenticator Authenticator
	Authorizer    authz.Authorizer
	Lister        authz.Lister
}

// kind is one review.
type kind struct {
	resource   string
	gvk        schema.GroupVersionKind
	namespaced bool
	new        func() runtime.Object
}

func kinds() []kind {
	z, n := authorizationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion
	return []kind{
		{"subjectaccessreviews", z.WithKind("SubjectAccessReview"), false, func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }},
		{"selfsubjectaccessreviews", z.WithKind("SelfSubjectAccessReview"), false, func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} }},
		{"localsubjectaccessreviews", z.WithKind("LocalSubjectAccessReview"), true, func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} }},
		{"selfsubjectrulesreviews", z.WithKind("SelfSubjectRulesReview"), false, func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} }},
		{"tokenreviews", n.WithKind("TokenReview"), false, func() runtime.Object { return &authenticationv1.TokenReview{} }},
		{"selfsubjectreviews", n.WithKind("SelfSubjectReview"), false, func() runtime.Object { return &authenticationv1.SelfSubjectReview{} }},
	}
}

// Resources are what discovery tells of the reviews.
func Resources() []*registry.Resource {
	var out []*registry.Resource
	for _, k := range kinds() {
		singular := k.resource[:len(k.resource)-1]
		out = append(out, &registry.Resource{
			Kind: &registry.Kind{GVK: k.gvk, Resource: k.resource, Singular: singular, Namespaced: k.namespaced},
			GVK:  k.gvk, GVR: k.gvk.GroupVersion().WithResource(k.resource),
		})
	}
	return out
}

// Create implements apiv1.ObjectServiceServer.
func (s *Server) Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	for _, k := range kinds() {
		if k.resource == req.GetResource() && k.gvk.Group == req.GetGroup() && k.gvk.Version == req.GetVersion() &&
			req.GetSubresource() == "" && req.GetName() == "" && k.namespaced == (req.GetNamespace() != "") {
			return s.review(ctx, k, req)
		}
	}
	return s.ObjectServiceServer.Create(ctx, req)
}

func (s *Server) review(ctx context.Context, k kind, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	user, err := s.Authenticator.Authenticate(ctx)
	if err != nil {
		return nil, err
	}
	a := &authz.Attributes{
		User: user, Verb: "create", Group: k.gvk.Group, Version: k.gvk.Version, Resource: k.resource, Namespace: req.GetNamespace(),
	}
	if decision, reason, _ := s.Authorizer.Authorize(ctx, a); decision != authz.Allow {
		return nil, authz.Forbidden(a, reason)
	}
	form, err := codec.Negotiate(req.GetAccept(), req.GetPretty(), "")
	if err != nil {
		return nil, err
	}
	obj := k.new()
	if _, err := (codec.Body{Data: req.GetObject(), ContentType: req.GetContentType()}).Into(obj, k.gvk); err != nil {
		return nil, err
	}
	if err := s.answer(ctx, user, req.GetNamespace(), obj); err != nil {
		return nil, err
	}
	form.As = codec.Whole
	body, contentType, err := codec.Any(obj, k.gvk, form)
	return &apiv1.CreateResponse{Object: body, ContentType: contentType, Code: http.StatusCreated}, err
}

// answer fills in the status.
func (s *Server) answer(ctx context.Context, user *authn.User, namespace string, obj runtime.Object) error {
	switch r := obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		return s.subject(ctx, "SubjectAccessReview", &r.Spec, &r.Status)
	case *authorizationv1.LocalSubjectAccessReview:
		if r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Namespace != namespace || r.Spec.NonResourceAttributes != nil {
			return invalid("LocalSubjectAccessReview", field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), namespace, "must match metadata.namespace"))
		}
		return s.subject(ctx, "LocalSubjectAccessReview", &r.Spec, &r.Status)
	case *authorizationv1.SelfSubjectAccessReview:
		return s.access(ctx, "SelfSubjectAccessReview", user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, &r.Status)
	case *authorizationv1.SelfSubjectRulesReview:
		if r.Spec.Namespace == "" {
			return apierrors.NewBadRequest("no namespace on request")
		}
		s.rules(ctx, user, r)
	case *authenticationv1.SelfSubjectReview:
		r.Status.UserInfo = info(user)
	case *authenticationv1.TokenReview:
		if r.Spec.Token == "" {
			return apierrors.NewBadRequest("token is required for TokenReview in authentication")
		}
		r.Status = authenticationv1.TokenReviewStatus{}
		if who, err := s.Authenticator.Token(ctx, r.Spec.Token); err == nil {
			r.Status.Authenticated, r.Status.User = true, info(who)
		}
	}
	return nil
}

func info(u *authn.User) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = values
	}
	return out
}

func invalid(kind string, e *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName, Kind: kind}, "", field.ErrorList{e})
}

func (s *Server) subject(ctx context.Context, kind string, spec *authorizationv1.SubjectAccessReviewSpec, status *authorizationv1.SubjectAccessReviewStatus) error {
	if spec.User == "" && len(spec.Groups) == 0 {
		return invalid(kind, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	user := &authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: map[string][]string{}}
	for key, values := range spec.Extra {
		user.Extra[key] = values
	}
	return s.access(ctx, kind, user, spec.ResourceAttributes, spec.NonResourceAttributes, status)
}

func (s *Server) access(ctx context.Context, kind string, user *authn.User, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes, status *authorizationv1.SubjectAccessReviewStatus) error {
	path := field.NewPath("spec", "resourceAttributes")
	if r == nil && n == nil {
		return invalid(kind, field.Invalid(path, "", "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if r != nil && n != nil {
		return invalid(kind, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), "", "cannot be specified in combination with resourceAttributes"))
	}
	a := &authz.Attributes{User: user, Explain: true}
	if r != nil {
		a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name = r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Name
	} else {
		a.Verb, a.Path = n.Verb, n.Path
	}
	decision, reason, err := s.Authorizer.Authorize(ctx, a)
	*status = authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return nil
}

func (s *Server) rules(ctx context.Context, user *authn.User, r *authorizationv1.SelfSubjectRulesReview) {
	rules, incomplete, err := s.Lister.RulesFor(ctx, user, r.Spec.Namespace)
	r.Status = authorizationv1.SubjectRulesReviewStatus{
		Incomplete: incomplete, ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	if err != nil {
		r.Status.EvaluationError = err.Error()
	}
	for _, p := range rules {
		if len(p.NonResourceURLs) > 0 {
			r.Status.NonResourceRules = append(r.Status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: p.Verbs, NonResourceURLs: p.NonResourceURLs})
			continue
		}
		r.Status.ResourceRules = append(r.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: p.Verbs, APIGroups: p.APIGroups, Resources: p.Resources, ResourceNames: p.ResourceNames,
		})
	}
}
