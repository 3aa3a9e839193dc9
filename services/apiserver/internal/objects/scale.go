package objects

import (
	"context"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

func typesUID(uid string) types.UID { return types.UID(uid) }

// scaleOf is the Scale of an object.
func scaleOf(kind *registry.Kind, obj registry.Object) *autoscalingv1.Scale {
	spec, status, selector := kind.Scale.Get(obj)
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: spec},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector},
	}
}

// unset stands for replicas that an object does not say: a Scale that still has them after a change names none.
const unset = math.MinInt32

// scaleBefore is the Scale of an object that is to be changed.
func scaleBefore(kind *registry.Kind, obj registry.Object) (*autoscalingv1.Scale, error) {
	scale := scaleOf(kind, obj)
	scale.SetGroupVersionKind(scaleGVK)
	if kind.Scale.Check == nil {
		return scale, nil
	}
	wants, err := kind.Scale.Check(obj)
	if err != nil {
		return nil, plain(err)
	}
	if !wants {
		scale.Spec.Replicas = unset
	}
	return scale, nil
}

type changeFunc = func(ctx context.Context, old registry.Object) (registry.Object, error)

// scaleUpdate reads a PUT of a Scale, which u is.
func (s *Server) scaleUpdate(ctx context.Context, u *update, req *apiv1.UpdateRequest) (changeFunc, error) {
	r, opts := u.r, u.opts
	if err := r.offer.Takes(req.GetContentType()); err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{}
	warnings, err := codec.Body{Data: req.GetObject(), ContentType: req.GetContentType(), Validation: opts.validation, Offer: r.offer}.Into(scale, scaleGVK)
	if err != nil && r.res.Kind.Custom != nil { // whose decoder knows no kinds but the custom one
		return nil, apierrors.NewBadRequest(`no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"`)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		r.warn(w)
	}
	receivedAs(ctx, scale, scaleGVK)
	if err := checkNamespace(r, scale); err != nil {
		return nil, err
	}
	if err := checkName(r, scale); err != nil {
		return nil, err
	}
	dedupeOwners(r, scale, false)
	return func(_ context.Context, old registry.Object) (registry.Object, error) {
		scaled, err := s.Fields.ForScale(r.res, old.GetManagedFields())
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		before, err := scaleBefore(r.res.Kind, old)
		if err != nil {
			return nil, err
		}
		after := scale.DeepCopy()
		after.SetGroupVersionKind(scaleGVK)
		entries, err := scaled.Update(before, after, r.manager(opts.manager))
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		u.tracked = admission.Tracked{Object: after.ManagedFields, Old: scaled.Entries()}
		return applyScale(r, old, after, entries, false)
	}, nil
}

// applyScale returns the object with the replicas that the Scale wants, and the managed fields that come of it. The uid of a Scale that
// was sent whole is a precondition of the write; a patched one's is compared here.
func applyScale(r *request, old registry.Object, scale *autoscalingv1.Scale, entries []metav1.ManagedFieldsEntry, patched bool) (registry.Object, error) {
	// What a custom kind may have its own validation says, of its own fields.
	if r.res.Kind.Custom == nil {
		at := field.NewPath("metadata")
		errs := validation.ValidateObjectMeta(&scale.ObjectMeta, true, validation.NameIsDNSSubdomain, at)
		errs = append(errs, validateFinalizers(scale.Finalizers, at.Child("finalizers"))...)
		if scale.Spec.Replicas < 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"))
		}
		if len(errs) > 0 {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, r.name, errs)
		}
	}
	if patched && r.res.Kind.Custom == nil && scale.UID != "" && scale.UID != old.GetUID() {
		resource := r.res.GroupResource()
		resource.Resource += "/scale"
		return nil, apierrors.NewConflict(resource, r.name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", scale.UID, old.GetUID()))
	}
	if r.res.Kind.Scale.Check != nil && scale.Spec.Replicas == unset {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", r.res.Kind.Scale.Field))
	}
	obj := old.DeepCopyObject().(registry.Object)
	if scale.ResourceVersion != "" || !r.res.Kind.NeedsRevision { // a Scale need not name a revision, whatever its object must
		obj.SetResourceVersion(scale.ResourceVersion)
	}
	if scale.UID != "" && r.res.Kind.Custom == nil { // of custom objects the Scale's uid is not looked at
		obj.SetUID(scale.UID)
	}
	if err := r.res.Kind.Scale.Set(obj, scale.Spec.Replicas); err != nil {
		return nil, plain(err)
	}
	obj.SetManagedFields(entries)
	return obj, nil
}
