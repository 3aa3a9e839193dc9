// Package review answers the reviews: resources that are only ever created, and whose status is an answer about who
// somebody is or what they may do. Nothing is stored.
package review

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/registry"
)

// Authenticator finds out who a token speaks for, and which of the audiences it is meant for.
type Authenticator interface {
	Review(ctx context.Context, token string, audiences []string) (*authn.User, []string, error)
}

// Objects serves all other requests, and the parts of a review's that all requests have in common.
type Objects interface {
	apiv1.ObjectServiceServer
	Answer(ctx context.Context, res *registry.Resource, req *apiv1.CreateRequest, obj registry.Object, check func(*authn.User) (fill func(context.Context), err error)) (*apiv1.CreateResponse, error)
}

// Server answers reviews, and hands everything else to the service that it stands in front of.
type Server struct {
	Objects
	Authenticator Authenticator
	Authorizer    authz.Authorizer
	Lister        authz.Lister
	Clock         clock.PassiveClock
	// Served, which may be nil, says which reviews are there.
	Served func(*registry.Resource) bool
}

// kind is one review.
type kind struct {
	resource   string
	gvk        schema.GroupVersionKind
	namespaced bool
	new        func() registry.Object
}

var kinds = []kind{
	{"subjectaccessreviews", authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), false, func() registry.Object { return &authorizationv1.SubjectAccessReview{} }},
	{"selfsubjectaccessreviews", authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), false, func() registry.Object { return &authorizationv1.SelfSubjectAccessReview{} }},
	{"localsubjectaccessreviews", authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"), true, func() registry.Object { return &authorizationv1.LocalSubjectAccessReview{} }},
	{"selfsubjectrulesreviews", authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), false, func() registry.Object { return &authorizationv1.SelfSubjectRulesReview{} }},
	{"tokenreviews", authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), false, func() registry.Object { return &authenticationv1.TokenReview{} }},
	{"selfsubjectreviews", authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), false, func() registry.Object { return &authenticationv1.SelfSubjectReview{} }},
}

func (k kind) described() *registry.Resource {
	return &registry.Resource{
		Kind: &registry.Kind{GVK: k.gvk, New: k.new, Resource: k.resource, Singular: k.resource[:len(k.resource)-1], Namespaced: k.namespaced},
		GVK:  k.gvk, GVR: k.gvk.GroupVersion().WithResource(k.resource),
	}
}

// Resources are what discovery tells of the reviews.
func Resources() []*registry.Resource {
	out := make([]*registry.Resource, 0, len(kinds))
	for _, k := range kinds {
		out = append(out, k.described())
	}
	return out
}

// Create implements apiv1.ObjectServiceServer.
func (s *Server) Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	for _, k := range kinds {
		if k.resource != req.GetResource() || k.gvk.Group != req.GetGroup() || k.gvk.Version != req.GetVersion() || req.GetSubresource() != "" || req.GetName() != "" {
			continue
		}
		res, obj := k.described(), k.new()
		if s.Served != nil && !s.Served(res) {
			break
		}
		return s.Answer(ctx, res, req, obj, func(user *authn.User) (func(ctx context.Context), error) { return s.check(user, obj) })
	}
	return s.Objects.Create(ctx, req)
}

// check says what is wrong with a review, or returns what fills in its status.
func (s *Server) check(user *authn.User, obj registry.Object) (fill func(ctx context.Context), err error) {
	switch r := obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		return s.subject(r)
	case *authorizationv1.LocalSubjectAccessReview:
		return s.local(r)
	case *authorizationv1.SelfSubjectAccessReview:
		return s.self(user, r)
	case *authorizationv1.SelfSubjectRulesReview:
		return s.rules(user, r)
	case *authenticationv1.TokenReview:
		return s.token(r)
	case *authenticationv1.SelfSubjectReview:
		return func(context.Context) {
			r.ObjectMeta = metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(s.Clock.Now())}
			r.Status.UserInfo = info(user)
		}, nil
	}
	return nil, apierrors.NewInternalError(fmt.Errorf("%T is no review", obj))
}

// token tells whose the token is. Why it is nobody's is in the status, too, beside what the request says in it: Kubernetes leaves that.
func (s *Server) token(r *authenticationv1.TokenReview) (fill func(ctx context.Context), err error) {
	if r.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	return func(ctx context.Context) {
		noting, notes := authn.WithNotes(ctx)
		user, audiences, err := s.Authenticator.Review(noting, r.Spec.Token, r.Spec.Audiences)
		notes.Tell(audit.From(ctx).Annotate)
		if err != nil {
			r.Status.Authenticated, r.Status.Error = false, err.Error()
			return
		}
		r.Status.Authenticated, r.Status.User, r.Status.Audiences = true, info(user), audiences
	}, nil
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
