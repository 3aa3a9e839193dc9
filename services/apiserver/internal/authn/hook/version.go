package hook

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

// asker asks in a version of TokenReview, through post.
type asker func(spec authenticationv1.TokenReviewSpec, post func(question, reply runtime.Object) error) (*authenticationv1.TokenReviewStatus, error)

var versions = map[string]asker{"v1": askV1, "v1beta1": askV1beta1}

func askV1(spec authenticationv1.TokenReviewSpec, post func(question, reply runtime.Object) error) (*authenticationv1.TokenReviewStatus, error) {
	var reply authenticationv1.TokenReview
	err := post(&authenticationv1.TokenReview{Spec: spec}, &reply)
	return &reply.Status, err
}

func askV1beta1(spec authenticationv1.TokenReviewSpec, post func(question, reply runtime.Object) error) (*authenticationv1.TokenReviewStatus, error) {
	var reply authenticationv1beta1.TokenReview
	err := post(&authenticationv1beta1.TokenReview{Spec: authenticationv1beta1.TokenReviewSpec(spec)}, &reply)
	said := reply.Status
	status := &authenticationv1.TokenReviewStatus{Authenticated: said.Authenticated, Audiences: said.Audiences, Error: said.Error}
	status.User = authenticationv1.UserInfo{Username: said.User.Username, UID: said.User.UID, Groups: said.User.Groups}
	for key, values := range said.User.Extra {
		if status.User.Extra == nil {
			status.User.Extra = map[string]authenticationv1.ExtraValue{}
		}
		status.User.Extra[key] = authenticationv1.ExtraValue(values)
	}
	return status, err
}
