package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/initializers"
	"howdah.dev/services/apiserver/internal/registry"
)

// Initializers has new objects wait for the initializers that InitializerConfigurations (admissionregistration.k8s.io/v1alpha1) name, and
// keeps those who may not initialize from changing what waits. Kubernetes had it from 1.7 to 1.13.
type Initializers struct {
	Objects    admission.Objects
	Authorizer authz.Authorizer
	Kinds      Kinds
}

// Name implements admission.Plugin.
func (*Initializers) Name() string { return "Initializers" }

// Handles implements admission.Plugin.
func (p *Initializers) Handles(a *admission.Attributes) bool {
	switch a.Operation {
	case admission.Create:
		if a.Subresource != "" || a.Object == nil {
			return false
		}
		_, _, stored := p.Kinds.ResourceOf(a.Resource.Kind.GVK) // a review is answered, and is nowhere to wait
		return stored
	case admission.Update:
		return a.Object != nil && a.Old != nil && (waiting(a.Object) || waiting(a.Old))
	}
	return false
}

func waiting(obj registry.Object) bool { return initializers.Waiting{}.Waits(obj) }

// Admit implements admission.Mutator.
func (p *Initializers) Admit(ctx context.Context, a *admission.Attributes) error {
	switch {
	case a.Operation == admission.Create && a.Round > 0: // it has been settled
		return nil
	case a.Operation == admission.Create:
		return p.create(ctx, a)
	case a.Subresource != "":
		return initializers.Keep(a.Object, a.Old)
	}
	return p.update(ctx, a)
}

// create settles what a new object waits for: what it says itself, if its creator may say so, or else what is configured.
func (p *Initializers) create(ctx context.Context, a *admission.Attributes) error {
	given, err := initializers.Of(a.Object)
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case given == nil:
		return p.configured(ctx, a)
	}
	if err := p.mayInitialize(ctx, a, "create with initializers denied"); err != nil {
		return err
	}
	if given.Done() { // nothing is to come, whatever is configured
		return (*initializers.Initializers)(nil).Put(a.Object)
	}
	return p.invalid(a, given.Validate())
}

func (p *Initializers) configured(ctx context.Context, a *admission.Attributes) error {
	if _, mirror := a.Object.GetAnnotations()[corev1.MirrorPodAnnotationKey]; mirror && a.Is("", "pods") {
		return nil // it runs already
	}
	pending := p.pending(ctx, a)
	if len(pending) == 0 {
		return nil
	}
	return (&initializers.Initializers{Pending: pending}).Put(a.Object)
}

// update lets those who may initialize change an object that waits.
func (p *Initializers) update(ctx context.Context, a *admission.Attributes) error {
	old, err := initializers.Of(a.Old)
	if err != nil {
		return err
	}
	state, err := initializers.Of(a.Object)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if state.Done() && state != nil {
		if state = nil; old == nil {
			return state.Put(a.Object)
		}
	}
	if err := p.invalid(a, state.ValidateUpdate(old)); err != nil {
		return err
	}
	if err := p.mayInitialize(ctx, a, "update to uninitialized resource denied"); err != nil {
		return err
	}
	return state.Put(a.Object)
}

func (*Initializers) invalid(a *admission.Attributes, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(a.Resource.GVK.GroupKind(), a.Name, errs)
}

func (p *Initializers) mayInitialize(ctx context.Context, a *admission.Attributes, denied string) error {
	decision, reason, err := p.Authorizer.Authorize(ctx, &authz.Attributes{
		User: a.User, Verb: "initialize", Namespace: a.Namespace, Name: a.Name,
		Group: a.Resource.GVR.Group, Version: a.Resource.GVR.Version, Resource: a.Resource.GVR.Resource,
	})
	if err != nil {
		return err
	}
	if decision != authz.Allow {
		return a.Forbidden(fmt.Errorf("%s: %s", denied, reason))
	}
	return nil
}

// Validate implements admission.Validator. A creation that waits is announced to who holds it; the status of a pod that waits is nobody's.
func (*Initializers) Validate(ctx context.Context, a *admission.Attributes) error {
	switch {
	case a.Operation == admission.Create && waiting(a.Object):
		initializers.Announce(ctx, a.Resource, a.Object)
	case a.Operation == admission.Update && a.Subresource == "status" && a.Is("", "pods") && waiting(a.Old):
		return apierrors.NewInvalid(a.Resource.GVK.GroupKind(), a.Name, field.ErrorList{
			field.Forbidden(field.NewPath("status"), "must not update status when the object is uninitialized"),
		})
	}
	return nil
}

// initializer is one of an InitializerConfiguration.
type initializer struct {
	Name  string            `json:"name"`
	Rules []initializerRule `json:"rules"`
}

// initializerRule names resources by the API that creates them.
type initializerRule struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
}

func (r initializerRule) covers(gvr schema.GroupVersionResource) bool {
	among := func(names []string, name string) bool {
		return slices.Contains(names, "*") || slices.Contains(names, name)
	}
	return among(r.APIGroups, gvr.Group) && among(r.APIVersions, gvr.Version) && among(r.Resources, gvr.Resource)
}

// pending are the initializers that are configured for what is created: by the configurations' names, and then as each lists them.
func (p *Initializers) pending(ctx context.Context, a *admission.Attributes) (out []initializers.Initializer) {
	configurations := p.Objects.List(ctx, "admissionregistration.k8s.io", "initializerconfigurations", "")
	slices.SortFunc(configurations, func(a, b registry.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, obj := range configurations {
		for _, i := range initializersOf(obj) {
			covers := func(r initializerRule) bool { return r.covers(a.Resource.GVR) }
			if slices.ContainsFunc(i.Rules, covers) && !slices.Contains(out, initializers.Initializer{Name: i.Name}) {
				out = append(out, initializers.Initializer{Name: i.Name})
			}
		}
	}
	return out
}

// initializersOf reads an InitializerConfiguration; its schema has been checked.
func initializersOf(obj registry.Object) []initializer {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil
	}
	var read struct {
		Initializers []initializer `json:"initializers"`
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &read) != nil {
		return nil
	}
	return read.Initializers
}
