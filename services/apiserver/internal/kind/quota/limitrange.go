package quota

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// LimitRange returns the kind LimitRange.
func LimitRange() *registry.Kind {
	k := row.Of[corev1.LimitRange, corev1.LimitRangeList](corev1.SchemeGroupVersion, "limitranges")
	k.Namespaced, k.ShortNames = true, []string{"limits"}
	k.Default = typed.Do(func(l *corev1.LimitRange) {
		for i := range l.Spec.Limits {
			fill(&l.Spec.Limits[i])
		}
	})
	k.Validate = typed.Check(func(l *corev1.LimitRange) field.ErrorList {
		var errs field.ErrorList
		seen := map[corev1.LimitType]bool{}
		for i := range l.Spec.Limits {
			item, at := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
			errs = append(errs, check.QualifiedName(string(item.Type), at.Child("type"))...)
			if seen[item.Type] {
				errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
			}
			seen[item.Type] = true
			errs = append(errs, validateItem(item, at)...)
		}
		return errs
	})
	return k
}

// fill gives containers the most as default limit, and the default limit, or
// else the least, as default request.
func fill(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	add := func(to *corev1.ResourceList, from corev1.ResourceList) {
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		for name, q := range from {
			if _, set := (*to)[name]; !set {
				(*to)[name] = q.DeepCopy()
			}
		}
	}
	add(&item.Default, item.Max)
	add(&item.DefaultRequest, item.Default)
	add(&item.DefaultRequest, item.Min)
}

func validateItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		for name := range list {
			names[name] = true
		}
	}
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		errs = append(errs, check.QualifiedName(string(name), path.Key(string(name)))...)
		for _, c := range []struct {
			field, less, more string
			a, b              corev1.ResourceList
		}{
			{"min", "min", "max", item.Min, item.Max},
			{"defaultRequest", "min", "default request", item.Min, item.DefaultRequest},
			{"defaultRequest", "default request", "max", item.DefaultRequest, item.Max},
			{"defaultRequest", "default request", "default limit", item.DefaultRequest, item.Default},
			{"default", "min", "default", item.Min, item.Default},
			{"default", "default", "max", item.Default, item.Max},
		} {
			a, hasA := c.a[name]
			b, hasB := c.b[name]
			if hasA && hasB && a.Cmp(b) > 0 {
				value := a
				if c.less == "min" && c.field != "min" {
					value = b
				}
				errs = append(errs, field.Invalid(path.Child(c.field).Key(string(name)), value.String(),
					fmt.Sprintf("%s value %s is greater than %s value %s", c.less, a.String(), c.more, b.String())))
			}
		}
		if ratio, ok := item.MaxLimitRequestRatio[name]; ok && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
			errs = append(errs, field.Invalid(path.Child("maxLimitRequestRatio").Key(string(name)), ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
		}
	}
	return errs
}
