package view

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Attributes returns the write as CEL expressions see it in this version.
func (v *Version) Attributes(ctx context.Context) (*k8sadmission.VersionedAttributes, error) {
	var object, old runtime.Object
	if m, err := v.Map(false); err != nil {
		return nil, err
	} else if m != nil {
		object = m
	}
	if m, err := v.Map(true); err != nil {
		return nil, err
	} else if m != nil {
		old = m
	}
	r := v.request
	asked, err := r.As(ctx, r.Resource)
	if err != nil {
		return nil, err
	}
	return &k8sadmission.VersionedAttributes{
		Attributes: k8sadmission.NewAttributesRecord(object, old, asked.Kind, r.Where(), r.Name, r.Resource.GVR, r.Subresource,
			k8sadmission.Operation(r.Operation), Options(r.Attributes), r.DryRun, userInfo(r.User)),
		VersionedObject: object, VersionedOldObject: old, VersionedKind: v.Kind,
	}, nil
}

// Options are the options of the operation; nil for a CONNECT.
func Options(a *admission.Attributes) runtime.Object {
	var dryRun []string
	if a.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	kind := func(name string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: name} }
	switch a.Operation {
	case admission.Create:
		return &metav1.CreateOptions{TypeMeta: kind("CreateOptions"), DryRun: dryRun, FieldManager: a.FieldManager, FieldValidation: a.FieldValidation}
	case admission.Update:
		return &metav1.UpdateOptions{TypeMeta: kind("UpdateOptions"), DryRun: dryRun, FieldManager: a.FieldManager, FieldValidation: a.FieldValidation}
	case admission.Delete:
		options := &metav1.DeleteOptions{}
		if a.Options != nil {
			*options = *a.Options
		}
		options.TypeMeta = kind("DeleteOptions")
		return options
	}
	return nil
}

func userInfo(u *authn.User) user.Info {
	if u == nil {
		return &user.DefaultInfo{}
	}
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// Authorizer asks the cluster's authorizers on behalf of CEL expressions.
type Authorizer struct{ authz.Authorizer }

// Authorize implements authorizer.Authorizer.
func (a Authorizer) Authorize(ctx context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
	who := asked.GetUser()
	question := &authz.Attributes{
		User: &authn.User{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()},
		Verb: asked.GetVerb(), Explain: true,
	}
	if asked.IsResourceRequest() {
		question.Group, question.Version = asked.GetAPIGroup(), asked.GetAPIVersion()
		question.Resource, question.Subresource = asked.GetResource(), asked.GetSubresource()
		question.Namespace, question.Name = asked.GetNamespace(), asked.GetName()
	} else {
		question.Path = asked.GetPath()
	}
	decision, reason, err := a.Authorizer.Authorize(ctx, question)
	switch decision {
	case authz.Allow:
		return authorizer.DecisionAllow, reason, err
	case authz.Deny:
		return authorizer.DecisionDeny, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}
