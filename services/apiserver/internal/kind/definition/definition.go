// Package definition is the kind CustomResourceDefinition.
package definition

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Finalizer holds a definition in deletion until its objects are gone.
const Finalizer = apiextensionsv1.CustomResourceCleanupFinalizer

type crd = apiextensionsv1.CustomResourceDefinition

// Kind returns the kind; now is the time of conditions.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[crd, apiextensionsv1.CustomResourceDefinitionList](apiextensionsv1.SchemeGroupVersion, "customresourcedefinitions")
	k.ShortNames, k.Categories = []string{"crd", "crds"}, []string{"api-extensions"}
	k.NeedsRevision, k.Bulky = true, true
	c := checker{runtime.NewScheme()}
	install.Install(c.scheme)

	k.Default = typed.Do(func(d *crd) {
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(d)
		rewriteValues(d)
	})
	k.PrepareCreate = typed.Do(func(d *crd) {
		d.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		d.Generation = 1
		noteStored(d)
	})
	k.PrepareUpdate = typed.Change(func(d, old *crd) {
		d.Status = *old.Status.DeepCopy()
		if !equality.Semantic.DeepEqual(d.Spec, old.Spec) {
			d.Generation = old.Generation + 1
		}
		noteStored(d)
	})
	k.ValidateCreate = typed.Check(c.create)
	k.ValidateUpdate = typed.CheckChange(c.update)
	k.Warnings = typed.Warn(c.warnings)
	k.Status = &registry.Status{
		Untabled:       true,
		PrepareUpdate:  typed.Change(func(d, old *crd) { d.Spec = old.Spec }),
		ValidateUpdate: typed.CheckChange(c.status),
	}
	// A deletion always waits: for the objects of the kind.
	k.Holds = typed.Get(func(d *crd) bool { return d.DeletionTimestamp == nil })
	k.BeginDelete = typed.Do(func(d *crd) { beginDelete(d, now()) })
	return k
}

// noteStored adds the storage version to those that objects may be stored in.
func noteStored(d *crd) {
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			continue
		}
		for _, known := range d.Status.StoredVersions {
			if known == v.Name {
				return
			}
		}
		d.Status.StoredVersions = append(d.Status.StoredVersions, v.Name)
		return
	}
}

func beginDelete(d *crd, now time.Time) {
	held := false
	for _, f := range d.Finalizers {
		held = held || f == Finalizer
	}
	if !held {
		d.Finalizers = append(d.Finalizers, Finalizer)
	}
	SetCondition(d, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}, now)
}

// SetCondition sets a condition; its time changes with its status only. It reports whether anything changed.
func SetCondition(d *crd, c apiextensionsv1.CustomResourceDefinitionCondition, now time.Time) bool {
	c.LastTransitionTime = metav1.Time{Time: now.UTC().Truncate(time.Second)}
	for i := range d.Status.Conditions {
		old := &d.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		changed := *old != c
		*old = c
		return changed
	}
	d.Status.Conditions = append(d.Status.Conditions, c)
	return true
}

// Condition returns a condition, or nil.
func Condition(d *crd, of apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == of {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// Is reports whether a condition is true.
func Is(d *crd, of apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	c := Condition(d, of)
	return c != nil && c.Status == apiextensionsv1.ConditionTrue
}

// checker validates with the library that Kubernetes has for it, which works on the internal version.
type checker struct{ scheme *runtime.Scheme }

func (c checker) internal(d *crd) (*apiextensions.CustomResourceDefinition, field.ErrorList) {
	out := &apiextensions.CustomResourceDefinition{}
	// The conversion shares memory with its input, and validation completes schemas in place.
	if err := c.scheme.Convert(d.DeepCopy(), out, nil); err != nil {
		return nil, field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	dropUnselectable(&out.Spec)
	return out, nil
}

// dropUnselectable leaves fields out that cannot be looked up, because the schema is not structural, which is an error of its
// own: the library panics where it does.
func dropUnselectable(spec *apiextensions.CustomResourceDefinitionSpec) {
	structural := func(of *apiextensions.CustomResourceValidation) bool {
		if of == nil || of.OpenAPIV3Schema == nil {
			return true // nothing that could be wrong with it
		}
		_, err := schema.NewStructural(of.OpenAPIV3Schema)
		return err == nil
	}
	if len(spec.SelectableFields) > 0 && !structural(spec.Validation) {
		spec.SelectableFields = nil
	}
	for i := range spec.Versions {
		v := &spec.Versions[i]
		of := v.Schema
		if of == nil {
			of = spec.Validation
		}
		if len(v.SelectableFields) > 0 && !structural(of) {
			v.SelectableFields = nil
		}
	}
}

func (c checker) create(d *crd) field.ErrorList {
	in, errs := c.internal(d)
	if errs == nil {
		errs = validation.ValidateCustomResourceDefinition(context.Background(), in)
	}
	return withoutMeta(errs)
}

func (c checker) update(d, old *crd) field.ErrorList {
	in, errs := c.internal(d)
	before, more := c.internal(old)
	if errs = append(errs, more...); len(errs) == 0 {
		errs = validation.ValidateCustomResourceDefinitionUpdate(context.Background(), in, before)
	}
	return withoutMeta(errs)
}

func (c checker) status(d, old *crd) field.ErrorList {
	in, errs := c.internal(d)
	before, more := c.internal(old)
	if errs = append(errs, more...); len(errs) == 0 {
		errs = validation.ValidateUpdateCustomResourceDefinitionStatus(in, before)
	}
	return withoutMeta(errs)
}

// withoutMeta drops what the machinery finds too.
func withoutMeta(errs field.ErrorList) field.ErrorList {
	var kept field.ErrorList
	for _, e := range errs {
		if !strings.HasPrefix(e.Field, "metadata") || strings.HasPrefix(e.Field, "metadata.annotations") || strings.HasPrefix(e.Detail, "must be spec.names.plural") {
			kept = append(kept, e)
		}
	}
	return kept
}
