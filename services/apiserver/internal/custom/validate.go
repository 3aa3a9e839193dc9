package custom

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"howdah.dev/services/apiserver/internal/registry"
)

func broken(err error) field.ErrorList {
	return field.ErrorList{field.InternalError(nil, err)}
}

func (v *version) validateCreate(obj registry.Object) field.ErrorList {
	c, err := v.schema()
	if err != nil {
		return broken(err)
	}
	now := content(obj)
	if c.shape.object(now) == 0 {
		return v.checkRules(context.Background(), c, v.checkScale(now, true), obj, nil)
	}
	errs := validation.ValidateCustomResource(nil, now, c.whole)
	errs = append(errs, v.checkScale(now, true)...)
	errs = append(errs, objectmeta.Validate(nil, now, c.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, now)...)
	return v.checkRules(context.Background(), c, errs, obj, nil)
}

func (v *version) validateUpdate(obj, old registry.Object) field.ErrorList {
	return v.validateChange(context.Background(), obj, old)
}

func (v *version) validateChange(ctx context.Context, obj, old registry.Object) field.ErrorList {
	c, err := v.schema()
	if err != nil {
		return broken(err)
	}
	now, before := content(obj), content(old)
	if c.shape.object(now) == 0 {
		return v.checkChange(ctx, c, v.checkScale(now, true), obj, old)
	}
	// What was there before and is wrong may stay as it is.
	pair := common.NewCorrelatedObject(now, before, &model.Structural{Structural: c.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, now, before, c.whole, validation.WithRatcheting(pair))
	errs = append(errs, v.checkScale(now, true)...)
	errs = append(errs, objectmeta.Validate(nil, now, c.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, c.structural, before)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, now)...)
	}
	return v.checkRules(ctx, c, errs, obj, old, cel.WithRatcheting(pair))
}

func (v *version) validateStatus(obj, old registry.Object) field.ErrorList {
	return v.validateStatusChange(context.Background(), obj, old)
}

// validateStatusChange checks the status against its own part of the schema.
func (v *version) validateStatusChange(ctx context.Context, obj, old registry.Object) field.ErrorList {
	c, err := v.schema()
	if err != nil {
		return broken(err)
	}
	now, before := content(obj), content(old)
	if c.shape.object(now) == 0 {
		return v.checkChange(ctx, c, v.checkScale(now, false), obj, old)
	}
	pair := common.NewCorrelatedObject(now, before, &model.Structural{Structural: c.structural})
	var errs field.ErrorList
	if status, ok := now["status"]; ok {
		var options []validation.ValidationOption
		if c.structural != nil {
			options = append(options, validation.WithRatcheting(pair.Key("status")))
		}
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, before["status"], c.status, options...)
	}
	errs = append(errs, v.checkScale(now, false)...)
	if problems := listtype.ValidateListSetsAndMaps(nil, c.structural, now); len(problems) > 0 &&
		len(listtype.ValidateListSetsAndMaps(nil, c.structural, before)) == 0 {
		errs = append(errs, problems...)
	}
	return v.checkRules(ctx, c, errs, obj, old, cel.WithRatcheting(pair))
}

// checkRules evaluates x-kubernetes-validations, where the object is sound enough to be given to them. old is nil for a new object.
func (v *version) checkRules(ctx context.Context, c *compiled, errs field.ErrorList, obj, old registry.Object, options ...cel.Option) field.ErrorList {
	if c.rules == nil {
		return errs
	}
	if slices.ContainsFunc(errs, blocksRules) || slices.ContainsFunc(v.metadata(obj, old), blocksRules) {
		return append(errs, field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	var before any // an untyped nil where there is none
	if old != nil {
		before = content(old)
	}
	more, _ := c.rules.Validate(ctx, nil, c.structural, content(obj), before, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, more...)
}

// blocksRules reports whether an object with such a problem is not given to the rules.
func blocksRules(e *field.Error) bool {
	switch e.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// metadata returns what is wrong with the metadata, which others tell: here it only decides about the rules.
func (v *version) metadata(obj, old registry.Object) field.ErrorList {
	at := field.NewPath("metadata")
	if old != nil {
		return apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, at)
	}
	return apivalidation.ValidateObjectMetaAccessor(obj, v.namespaced, apivalidation.NameIsDNSSubdomain, at)
}

// checkChange is checkRules of a change.
func (v *version) checkChange(ctx context.Context, c *compiled, errs field.ErrorList, obj, old registry.Object) field.ErrorList {
	if c.rules == nil {
		return errs
	}
	pair := common.NewCorrelatedObject(content(obj), content(old), &model.Structural{Structural: c.structural})
	return v.checkRules(ctx, c, errs, obj, old, cel.WithRatcheting(pair))
}

// checkScale checks the fields that the scale subresource shows.
func (v *version) checkScale(now map[string]any, spec bool) field.ErrorList {
	if v.scale == nil {
		return nil
	}
	var errs field.ErrorList
	count := func(path string) {
		n, _, err := unstructured.NestedInt64(now, steps(path)...)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(path), n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	if spec {
		count(v.scale.SpecReplicasPath)
	}
	count(v.scale.StatusReplicasPath)
	if path := v.scale.LabelSelectorPath; path != nil {
		if text, _, err := unstructured.NestedString(now, steps(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), text, err.Error()))
		}
	}
	return errs
}

// steps are the fields of a simple JSON path.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

func finalizerWarnings(finalizer string) []string {
	const path = "metadata.finalizers"
	var texts []string
	for _, problem := range utilvalidation.IsQualifiedName(finalizer) {
		texts = append(texts, fmt.Sprintf("%s: %q: %s", path, finalizer, problem))
	}
	switch finalizer {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes):
		return texts
	}
	switch {
	case strings.Contains(finalizer, "/"):
	case strings.Contains(finalizer, "."):
		texts = append(texts, fmt.Sprintf("%s: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", path, finalizer))
	default:
		texts = append(texts, fmt.Sprintf("%s: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", path, finalizer))
	}
	return texts
}
