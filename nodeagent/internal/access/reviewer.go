package access

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

var (
	tokenReviews = object.Kind[*authenticationv1.TokenReview]{
		GVK:      schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
		Resource: "tokenreviews", New: func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
	}
	accessReviews = object.Kind[*authorizationv1.SubjectAccessReview]{
		GVK:      schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
		Resource: "subjectaccessreviews", New: func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
	}
)

// API is the Reviewer that asks over the object API.
type API struct{ Client *object.Client }

// ReviewToken implements Reviewer.
func (a API) ReviewToken(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	answer, err := object.For(a.Client, tokenReviews).Create(obs.Untraced(ctx), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return answer.Status, nil
}

// ReviewAccess implements Reviewer.
func (a API) ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	answer, err := object.For(a.Client, accessReviews).Create(obs.Untraced(ctx), &authorizationv1.SubjectAccessReview{Spec: spec})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return answer.Status, nil
}
