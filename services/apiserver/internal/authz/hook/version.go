package hook

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

// asker asks in a version of SubjectAccessReview, through post.
type asker func(spec authorizationv1.SubjectAccessReviewSpec, post func(question, reply runtime.Object) error) (authorizationv1.SubjectAccessReviewStatus, error)

var versions = map[string]asker{"v1": askV1, "v1beta1": askV1beta1}

func askV1(spec authorizationv1.SubjectAccessReviewSpec, post func(question, reply runtime.Object) error) (authorizationv1.SubjectAccessReviewStatus, error) {
	var reply authorizationv1.SubjectAccessReview
	err := post(&authorizationv1.SubjectAccessReview{Spec: spec}, &reply)
	return reply.Status, err
}

func askV1beta1(spec authorizationv1.SubjectAccessReviewSpec, post func(question, reply runtime.Object) error) (authorizationv1.SubjectAccessReviewStatus, error) {
	old := authorizationv1beta1.SubjectAccessReviewSpec{
		ResourceAttributes:    (*authorizationv1beta1.ResourceAttributes)(spec.ResourceAttributes),
		NonResourceAttributes: (*authorizationv1beta1.NonResourceAttributes)(spec.NonResourceAttributes),
		User:                  spec.User, Groups: spec.Groups, UID: spec.UID,
	}
	for key, values := range spec.Extra {
		if old.Extra == nil {
			old.Extra = map[string]authorizationv1beta1.ExtraValue{}
		}
		old.Extra[key] = authorizationv1beta1.ExtraValue(values)
	}
	var reply authorizationv1beta1.SubjectAccessReview
	err := post(&authorizationv1beta1.SubjectAccessReview{Spec: old}, &reply)
	return authorizationv1.SubjectAccessReviewStatus(reply.Status), err
}
