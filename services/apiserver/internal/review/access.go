package review

import (
	"cmp"
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

func (s *Server) subject(r *authorizationv1.SubjectAccessReview) (fill func(ctx context.Context), err error) {
	errs := append(checkSubject(&r.Spec), checkMeta(r.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	return func(ctx context.Context) {
		r.Status = s.decide(ctx, userOf(&r.Spec), r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	}, nil
}

func (s *Server) local(r *authorizationv1.LocalSubjectAccessReview) (fill func(ctx context.Context), err error) {
	path := field.NewPath("spec")
	if r.Namespace == "" { // the path has an empty part for it
		return nil, apierrors.NewBadRequest("namespace is required on this type: ")
	}
	errs := append(checkSubject(&r.Spec), checkMeta(r.ObjectMeta, "must be empty except for namespace")...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), shown(r.Spec.NonResourceAttributes), "disallowed on this kind of request"))
	}
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	return func(ctx context.Context) { r.Status = s.decide(ctx, userOf(&r.Spec), r.Spec.ResourceAttributes, nil) }, nil
}

func (s *Server) self(user *authn.User, r *authorizationv1.SelfSubjectAccessReview) (fill func(ctx context.Context), err error) {
	errs := append(checkAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes), checkMeta(r.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	return func(ctx context.Context) {
		r.Status = s.decide(ctx, user, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	}, nil
}

func (s *Server) rules(user *authn.User, r *authorizationv1.SelfSubjectRulesReview) (fill func(ctx context.Context), err error) {
	namespace := r.Spec.Namespace
	if namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	return func(ctx context.Context) { s.list(ctx, user, namespace, r) }, nil
}

// list tells the rules of a user in a namespace.
func (s *Server) list(ctx context.Context, user *authn.User, namespace string, r *authorizationv1.SelfSubjectRulesReview) {
	rules, incomplete, err := s.Lister.RulesFor(ctx, user, namespace)
	*r = authorizationv1.SelfSubjectRulesReview{TypeMeta: r.TypeMeta, Status: authorizationv1.SubjectRulesReviewStatus{
		Incomplete: incomplete, ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}}
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

// everyVersion stands for the version of a question that names none.
const everyVersion = "*"

// decide asks the authorizers.
func (s *Server) decide(ctx context.Context, user *authn.User, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a := &authz.Attributes{User: user, Explain: true}
	var ignored []string
	if r != nil {
		a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name = r.Verb, r.Group, cmp.Or(r.Version, everyVersion), r.Resource, r.Subresource, r.Namespace, r.Name
		ignored = selectors(r, a)
	} else {
		a.Verb, a.Path, a.NoResource = n.Verb, n.Path, true
	}
	decision, reason, err := s.Authorizer.Authorize(ctx, a)
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason}
	if err != nil {
		ignored = slices.Insert(ignored, 0, err.Error())
	}
	status.EvaluationError = strings.Join(ignored, "; ")
	return status
}

func userOf(spec *authorizationv1.SubjectAccessReviewSpec) *authn.User {
	user := &authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: map[string][]string{}}
	for key, values := range spec.Extra {
		user.Extra[key] = values
	}
	return user
}

func checkSubject(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkEither(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, checkResource(spec.ResourceAttributes)...)
}

func checkAttributes(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) field.ErrorList {
	return append(checkEither(r, n), checkResource(r)...)
}

// checkEither wants a resource or a path, and not both.
func checkEither(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) (errs field.ErrorList) {
	path := field.NewPath("spec")
	switch {
	case r != nil && n != nil:
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), shown(n), "cannot be specified in combination with resourceAttributes"))
	case r == nil && n == nil:
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), n, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	return errs
}

func checkResource(r *authorizationv1.ResourceAttributes) field.ErrorList {
	if r == nil {
		return nil
	}
	return checkSelectors(r, field.NewPath("spec", "resourceAttributes"))
}

// checkMeta refuses metadata: nothing of it would be kept.
func checkMeta(given metav1.ObjectMeta, text string) field.ErrorList {
	bare := given
	bare.ManagedFields, bare.Namespace = nil, "" // the namespace is that of the URL
	if equality.Semantic.DeepEqual(bare, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), given, text)}
}

// shown are the attributes as Kubernetes' error shows them.
func shown(n *authorizationv1.NonResourceAttributes) any {
	return struct{ Path, Verb string }{n.Path, n.Verb}
}

// invalid is the 422. Kubernetes tells the group in it, and no kind.
func invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}
